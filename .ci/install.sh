# Installs what a check needs, for the scripts that read this file. Where that is not possible, a line says what is missing, and the script
# ends with the status 77.

# unavailable REASON...
unavailable() {
  echo "${0##*/}: cannot run here: $*"
  exit 77
}

# install_packages PACKAGE...: installs Debian's packages, where the system is Debian.
install_packages() {
  local root=()
  if [ "$(id -u)" != 0 ]; then root=(sudo -n); fi
  command -v apt-get >/dev/null && "${root[@]}" apt-get update -q && "${root[@]}" apt-get install -q -y --no-install-recommends "$@"
}

# need_commands "COMMAND..." PACKAGE...: installs Debian's packages if a command is not in PATH.
need_commands() {
  local missing=() command
  for command in $1; do
    command -v "$command" >/dev/null || missing+=("$command")
  done
  if [ ${#missing[@]} -eq 0 ]; then return; fi
  shift
  if install_packages "$@"; then return; fi
  unavailable "not in PATH: ${missing[*]} (Debian's packages $*)"
}

# need_target TRIPLE: installs Rust's libraries for a target.
need_target() {
  if [ -d "$(rustc --print target-libdir --target "$1")" ] || rustup target add "$1"; then return; fi
  unavailable "Rust's libraries for $1 are not installed: rustup target add $1"
}

# use_compiler FOLDER REQUIREMENTS: puts IREE's compiler and what else a file of requirements names, which PyPI has, in PATH. They are
# installed in the folder once.
use_compiler() {
  mkdir -p "$1"
  if [ ! -x "$1/venv/bin/iree-compile" ]; then
    python3 -m venv "$1/venv"
    "$1/venv/bin/pip" install -q --disable-pip-version-check -r "$2"
  fi
  PATH=$1/venv/bin:$PATH
}
