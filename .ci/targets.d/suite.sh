# The tests that other targets run, for the scripts beside this file, which set before they read it:
#   name     the target's name in the summary
#   triple   the name that Rust has for it
#
# A target runs the tests of what may differ on it: code that it executes, and the system below it. Tests of text are the host's: those of
# the translator, of the macros and of the documentation, its examples included. All targets share one folder, and so the translator and
# what else the host executes to build them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. .ci/install.sh
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")

# The runtime; the models, interpreted and translated; the command line.
runtime=(-p incarnate-bytecode -p incarnate-kernels -p incarnate-vm -p incarnate-hal -p incarnate-local -p incarnate-runtime)
interpreted=(-p incarnate-tests)
translated=(-p incarnate-translated-tests)
command_line=(-p incarnate-cli --features incarnate-cli/cli)

# Nothing reads debug information.
options=(--locked --target "$triple" --config profile.dev.debug=false)

# Optimises the runtime a little, for targets that are emulated: it takes longer to compile than it saves where the processor executes it.
# Generated code and tests compile slowly with optimisation.
optimize_runtime() {
  local crate
  for crate in incarnate-{bytecode,kernels,vm,hal,local,runtime} flatbuffers object smallvec; do
    options+=(--config "profile.dev.package.$crate.opt-level=1")
  done
}

# Projects of `incarnate build` and `incarnate web`.
export XDG_CACHE_HOME=$target/cache

# Arguments of a program that calls the model `mlp`, in its folder, and compares the results.
call=(--function=mlp --input=@batch.in0.npy --expected_output=@batch.out0.npy --expected_f32_threshold=1e-05)

# Builds the command line for the host, as the host's tests do, and prints its path.
host_program() {
  cargo build --locked --features cli >&2
  echo "$target/debug/incarnate"
}

# build_program OPTION...: builds a program of the model `mlp`; without optimisation, which takes three times as long.
build_program() {
  local incarnate
  incarnate=$(host_program)
  CARGO_PROFILE_RELEASE_OPT_LEVEL=0 "$incarnate" build tests/models/mlp/vmvx.vmfb "$@"
}

suite_log=$(mktemp)
trap 'rm -f "$suite_log"' EXIT

# All but the documentation's examples and the programs of examples/.
everything=(--lib --bins --tests)

# run_tests OPTION...: runs tests, adds their counts, and lists those that do not run.
passed=0 failed=0 ignored=0
run_tests() {
  local status=0 counts
  cargo test "${options[@]}" --no-fail-fast "$@" 2>&1 | tee "$suite_log" || status=$?
  read -ra counts < <(awk '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
    END { print passed + 0, failed + 0, ignored + 0 }' "$suite_log")
  passed=$((passed + counts[0])) failed=$((failed + counts[1])) ignored=$((ignored + counts[2]))
  # A package that does not compile has no result.
  if [ "$status" -ne 0 ] && [ "${counts[1]}" -eq 0 ]; then failed=$((failed + 1)); fi
}

# summarize WHERE: prints the last line of a script, and ends it.
summarize() {
  echo "$name: $passed passed, $failed failed, $ignored ignored ($*)"
  if [ "$failed" -ne 0 ]; then exit 1; fi
  exit 0
}
