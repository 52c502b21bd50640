# Tests of a wheel on the machine, or in the emulator, that it is for; for the scripts that read this file.

# The tests that need no second process: an emulated interpreter cannot start one.
# shellcheck disable=SC2034 # for the script that reads this file
wheel_tests=(python/tests/test_calls.py python/tests/test_memory.py python/tests/test_dlpack.py)
# Git may end lines as Windows does.
mapfile -t wheel_packages < <(tr -d '\r' <python/tests/requirements.txt | grep -E '^(ml_dtypes|numpy|pytest)==')
