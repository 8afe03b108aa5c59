#!/bin/sh
# setup.sh PACKAGES REQUIREMENTS VENV: installs the Debian packages that are missing, and a Python environment with
# what the checks need. Says nothing when all is there.
set -eu
packages=$1
requirements=$2
venv=$3

if command -v dpkg-query >/dev/null 2>&1; then
    missing=
    for package in $(grep -v '^ *#' "$packages"); do
        case $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true) in
        *installed*) ;;
        *) missing="$missing $package" ;;
        esac
    done
    if [ -n "$missing" ]; then
        echo "setup: installing$missing"
        sudo=
        if [ "$(id -u)" -ne 0 ]; then
            command -v sudo >/dev/null || { echo "setup: needs root or sudo to install$missing" >&2; exit 1; }
            sudo=sudo
        fi
        $sudo apt-get update -qq
        # shellcheck disable=SC2086 # a list of words
        $sudo env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends $missing >"$venv.apt.log" 2>&1 || {
            tail -20 "$venv.apt.log" >&2
            echo "setup: apt-get failed; the whole log is $venv.apt.log" >&2
            exit 1
        }
    fi
else
    echo "setup: no dpkg here: make sure yourself that what packages.apt names is installed"
fi

# Debian's python3, not another one that may come first on the path.
python=/usr/bin/python3
[ -x $python ] || python=python3
if [ ! -f "$venv/requirements.txt" ] || ! cmp -s "$requirements" "$venv/requirements.txt"; then
    echo "setup: Python packages of $requirements into $venv"
    $python -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"
    cp "$requirements" "$venv/requirements.txt"
fi
