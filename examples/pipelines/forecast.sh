#!/usr/bin/env bash
# Prints what a changed manifest of a Deployment would do on the cluster, as Markdown, and comments on the pull or merge request.
#
#   forecast.sh MANIFEST NAMESPACE DEPLOYMENT
#
# It requires kubectl (with KUBECONFIG as usual), rollplan and, for comments, jq. Nothing is applied. Optional variables: HTML, a file
# for a page with pictures; PULL_REQUEST and GH_TOKEN, to comment with gh in GitHub Actions, where the text is also the summary of
# the job; GITLAB_TOKEN (scope api), to comment with curl in a merge request pipeline of GitLab CI/CD. An earlier comment is
# replaced. The exit code is that of `rollplan forecast`: docs/reference/command.md.
set -euo pipefail

manifest=${1:?usage: forecast.sh MANIFEST NAMESPACE DEPLOYMENT} namespace=$2 name=$3
text=$(mktemp)
trap 'rm -f "$text"' EXIT
forecast=(rollplan forecast "deploy/$name" -n "$namespace" -f "$manifest")
# The next run finds its comment by this line.
export MARKER="<!-- rollplan forecast $namespace/$name -->"

github() {
  local comments=repos/$GITHUB_REPOSITORY/issues id
  id=$(gh api --paginate "$comments/$PULL_REQUEST/comments" --jq '.[] | select(.body | startswith(env.MARKER)) | .id' | sed -n 1p)
  if [ -n "$id" ]; then
    gh api --silent --method PATCH "$comments/comments/$id" -F "body=@$text"
  else
    gh api --silent "$comments/$PULL_REQUEST/comments" -F "body=@$text"
  fi
}

gitlab() {
  local notes=$CI_API_V4_URL/projects/$CI_PROJECT_ID/merge_requests/$CI_MERGE_REQUEST_IID/notes id
  # The token is not an argument, which other processes could read.
  request() { curl --fail --silent --show-error --config - "$@" <<<"header = \"PRIVATE-TOKEN: $GITLAB_TOKEN\""; }
  id=$(request "$notes?per_page=100" | jq 'map(select(.body | startswith(env.MARKER)) | .id) | first // empty')
  if [ -n "$id" ]; then
    request --output /dev/null --request PUT "$notes/$id" --data-urlencode "body@$text"
  else
    request --output /dev/null "$notes" --data-urlencode "body@$text"
  fi
}

code=0
{ echo "$MARKER" && "${forecast[@]}" -o markdown; } >"$text" || code=$?
# Without a forecast, the file has only the marker.
[ "$(wc -l <"$text")" -gt 1 ] || exit $code
[ -z "${HTML:-}" ] || "${forecast[@]}" -o html >"$HTML" || [ $? -eq 1 ]
tail -n +2 "$text" | tee -a "${GITHUB_STEP_SUMMARY:-/dev/null}"
if [ -n "${PULL_REQUEST:-}" ] && [ -n "${GH_TOKEN:-}" ]; then
  github || echo "::warning::cannot comment on pull request $PULL_REQUEST"
elif [ -n "${CI_MERGE_REQUEST_IID:-}" ] && [ -n "${GITLAB_TOKEN:-}" ]; then
  gitlab || echo "cannot comment on merge request $CI_MERGE_REQUEST_IID"
fi
exit $code
