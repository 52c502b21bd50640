# Runs the steps of a check, and prints how long each took when the script ends. For the scripts that read this file.

step_rows=()

# Sets `processors` to the seconds that ended child processes used processors.
count_processors() {
  local spent
  spent=$(mktemp)
  times >"$spent"
  processors=$(awk 'END { split($1, own, "[ms]"); split($2, kernel, "[ms]")
    printf "%d", 60 * (own[1] + kernel[1]) + own[2] + kernel[2] }' "$spent")
  rm -f "$spent"
}

# step COMMAND...: prints and runs a command, and keeps its times, also where it fails. Returns its status.
step() {
  local status=0 from=$SECONDS before state=passed
  printf '\n== %s\n' "$*"
  count_processors
  before=$processors
  "$@" || status=$?
  count_processors
  case $status in
    0) ;;
    # As install.sh ends a script that cannot run on this machine.
    77) state=skipped ;;
    *) state=FAILED ;;
  esac
  step_rows+=("$(printf '%6d s %6d s  %-7s %s' "$((SECONDS - from))" "$((processors - before))" "$state" "$*")")
  return "$status"
}

# Prints a row for each step: seconds of the clock, seconds of processors.
print_steps() {
  count_processors
  printf '\n   clock processors  state   step\n'
  printf '%s\n' "${step_rows[@]}"
  printf '%6d s %6d s  total   %s\n' "$SECONDS" "$processors" "${0##*/}"
}
trap print_steps EXIT
