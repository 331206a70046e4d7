# Configures the directory `build` for the programs alone. To be sourced by bash scripts whose directory is the
# project's.

# shellcheck shell=bash

# The last configuration of `build` has tests. scripts/test made it, or a person.
has_tests() { grep -qs '^add_test' build/*/CTestTestfile.cmake; }

# configure_programs LOG: looks for no test library. A directory that has tests keeps them: without them ninja would
# forget how they are built, and the next scripts/test would start anew. What a directory of another revision, or
# another path, remembers may not fit this tree: then it is configured afresh. What is built stays in each case.
# Prints each command that it runs.
configure_programs() {
  local log=$1 without_tests=(--preset release -D GOSSAMER_TESTS=OFF)
  if has_tests && log_cmake "$log" --preset release; then
    return
  fi
  log_cmake "$log" "${without_tests[@]}" || log_cmake "$log" --fresh "${without_tests[@]}"
}

log_cmake() {  # LOG ARGUMENT...
  local log=$1
  shift
  printf '\n$ cmake %s\n' "$*"
  cmake "$@" >"$log" 2>&1
}
