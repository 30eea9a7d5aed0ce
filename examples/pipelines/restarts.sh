#!/usr/bin/env bash
# Prints which workloads restart because of the changes of manifests since a commit, as Markdown for a pull request.
#
#   restarts.sh MANIFESTS BASE
#
# MANIFESTS is a file or directory of a Git working tree, and BASE the commit or branch to compare with. It requires git and
# rollplan. Optional variable: PROFILE, which selects whose annotations apply (rollplan). In GitHub Actions, the text is also
# the summary of the job.
set -euo pipefail

manifests=${1:?usage: restarts.sh MANIFESTS BASE} base=${2:?usage: restarts.sh MANIFESTS BASE}
old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
top=$(git rev-parse --show-toplevel)
# git archive needs the path relative to the top of the repository.
path=$(cd "$top" && realpath --relative-to="$top" "$OLDPWD/$manifests")
mkdir -p "$old/$path"
if git -C "$top" cat-file -e "$base:$path" 2>/dev/null; then
  [ -d "$top/$path" ] || rmdir "$old/$path"
  git -C "$top" archive "$base" -- "$path" | tar -x -C "$old"
fi
rollplan restarts -f "$manifests" --since "$old/$path" --profile "${PROFILE:-rollplan}" -o markdown |
  tee -a "${GITHUB_STEP_SUMMARY:-/dev/null}"
