#!/bin/sh
# Installs the command of a release of rollplan: downloads its archive, verifies the checksum and copies the program.
#
#   install.sh VERSION [DIRECTORY]
#
# DIRECTORY is where the program goes (default: ~/.local/bin). ROLLPLAN_RELEASES is the address of the releases, each in a
# directory vVERSION (default: https://rollplan.dev/releases). Nothing is installed if the checksum differs.
set -eu

fail() {
  echo "install.sh: $1" >&2
  exit 1
}

[ $# -ge 1 ] && [ $# -le 2 ] || fail "usage: install.sh VERSION [DIRECTORY]"
version=${1#v}
directory=${2:-$HOME/.local/bin}
case $version in
  '' | *[!0-9A-Za-z.+-]*) fail "$1 is not a version" ;;
esac
case $(uname -s)-$(uname -m) in
  Linux-x86_64) platform=linux-amd64 ;;
  *) fail "no binary for $(uname -s) on $(uname -m); build rollplan with cargo (docs/guides/install.md)" ;;
esac

release=${ROLLPLAN_RELEASES:-https://rollplan.dev/releases}/v$version
archive=rollplan-$version-$platform.tar.gz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for file in SHA256SUMS "$archive"; do
  if command -v curl >/dev/null; then
    curl -fsSL --retry 3 -o "$work/$file" "$release/$file" || fail "cannot download $release/$file"
  elif command -v wget >/dev/null; then
    wget -q -O "$work/$file" "$release/$file" || fail "cannot download $release/$file"
  else
    fail "curl or wget is required"
  fi
done
expected=$(awk -v file="$archive" '$2 == file { print $1 }' "$work/SHA256SUMS")
[ -n "$expected" ] || fail "SHA256SUMS of $version does not list $archive"
actual=$(sha256sum "$work/$archive" | cut -d ' ' -f 1)
[ "$actual" = "$expected" ] || fail "the checksum of $archive is $actual instead of $expected: nothing is installed"

tar -xzf "$work/$archive" -C "$work" rollplan
mkdir -p "$directory"
# Renamed within the directory, so that a program that is running is not overwritten.
cp "$work/rollplan" "$directory/.rollplan.$$"
mv "$directory/.rollplan.$$" "$directory/rollplan"
echo "installed $("$directory/rollplan" --version) as $directory/rollplan"
case :$PATH: in
  *:"$directory":*) ;;
  *) echo "add $directory to your PATH" ;;
esac
