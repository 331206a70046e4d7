# Trees that gossamer-lab has only if it was built with checkouts of their libraries (docs/lab.md). To be sourced by bash.

# optional_trees BUILD TREE...: prints those that the build has, each with a comma before it.
optional_trees() {
  local trees tree
  trees=$("$1/bin/gossamer-lab" --list)
  for tree in "${@:2}"; do
    if grep -qE "^ *$tree " <<<"$trees"; then printf ',%s' "$tree"; fi
  done
}
