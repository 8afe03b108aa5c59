#!/bin/sh
# setup.sh PACKAGES REQUIREMENTS VENV: as cmake/setup.sh, but a rival that cannot be installed is left out, and named.
here=$(cd "$(dirname "$0")" && pwd)
packages=$1
requirements=$2
venv=$3
install=$here/../../cmake/setup.sh

sh "$install" "$packages" "$requirements" "$venv" && exit 0
echo "bench: not everything could be installed: one by one now"
one=$venv.one
for package in $(grep -v '^ *#' "$packages"); do
    echo "$package" >"$one.apt"
    : >"$one.txt"
    sh "$install" "$one.apt" "$one.txt" "$one" >/dev/null 2>&1 || echo "bench: missing: $package"
done
[ -x "$venv/bin/python" ] || /usr/bin/python3 -m venv "$venv" || exit 1
grep -v '^ *#' "$requirements" | while read -r line; do
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$line" </dev/null || echo "bench: missing: $line"
done
cp "$requirements" "$venv/requirements.txt"
rm -rf "$one" "$one.apt" "$one.txt" "$one.apt.log"
