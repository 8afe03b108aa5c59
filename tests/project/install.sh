#!/bin/sh
# install.sh BUILD OUTSIDE: an installed copy, moved afterwards, serves an outside project through CMake and pkg-config,
# shared and static, in C and C++; and the installed command runs.
build=$1
outside=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
expected='0.0900 0.2447 0.6652'
count=0
failed=0

step() # words, command...: a step that everything after it needs
{
    words=$1
    shift
    if ! "$@" >"$work/log" 2>&1; then
        echo "FAILED: $words: $*"
        cat "$work/log"
        exit 1
    fi
}

runs() # words, program: prints the right probabilities
{
    count=$((count + 1))
    output=$("$2" 2>&1)
    case $output in
    *"$expected") echo "ok: $1: $output" ;;
    *)
        echo "FAILED: $1: it printed '$output', not '... $expected'"
        failed=$((failed + 1))
        ;;
    esac
}

needs_library() # words, program, yes|no: whether it loads libsoftmax.so.0
{
    found=no
    readelf -d "$2" | grep -q 'NEEDED.*\[libsoftmax\.so\.0\]' && found=yes
    if [ $found != "$3" ]; then
        echo "FAILED: $1: needs libsoftmax.so.0: $found, expected $3"
        failed=$((failed + 1))
    fi
}

step 'install' cmake --install "$build" --prefix "$work/first place"
mv "$work/first place" "$work/prefix"
prefix=$work/prefix
libdir=$(dirname "$(find "$prefix" -name libsoftmax.so.0)")
for file in include/softmax.h include/softmax_reference.h; do
    [ -f "$prefix/$file" ] || { echo "FAILED: $file was not installed"; failed=$((failed + 1)); }
done

step 'configure the outside project' cmake -S "$outside" -B "$work/outside" -DCMAKE_PREFIX_PATH="$prefix"
step 'build the outside project' cmake --build "$work/outside"
for language in c cxx; do
    runs "CMake, $language, shared" "$work/outside/${language}_softmax"
    needs_library "CMake, $language, shared" "$work/outside/${language}_softmax" yes
    runs "CMake, $language, static" "$work/outside/${language}_softmax_static"
    needs_library "CMake, $language, static" "$work/outside/${language}_softmax_static" no
done

export PKG_CONFIG_PATH="$libdir/pkgconfig"
for compiler in gcc clang; do
    # The flags are meant to be split into words.
    # shellcheck disable=SC2046
    step "pkg-config, $compiler, shared" $compiler "$outside/first.c" -o "$work/shared" \
        $(pkg-config --cflags --libs softmax)
    LD_LIBRARY_PATH=$libdir runs "pkg-config, $compiler, shared" "$work/shared"
    needs_library "pkg-config, $compiler, shared" "$work/shared" yes
    # shellcheck disable=SC2046
    step "pkg-config, $compiler, static" $compiler "$outside/first.c" -static -o "$work/static" \
        $(pkg-config --static --cflags --libs softmax)
    runs "pkg-config, $compiler, static" "$work/static"
done

if [ -e "$build/softmax" ]; then
    count=$((count + 1))
    step 'run the installed command' "$prefix/bin/softmax" info
    echo "ok: the installed command runs from where it was moved to"
fi
echo "$count programs ran, $failed failures"
[ $failed -eq 0 ]
