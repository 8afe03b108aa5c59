#!/bin/sh
# headers.sh SOURCE DLPACK_DIR: each public header, alone in a file, compiles as C99, C11 and C++17 under gcc and
# clang; and each of src/numerics as C11 and C++17, since CUDA compiles those as C++.
source=$(cd "$1" && pwd)
dlpack=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0
failed=0

compile() # what, compiler, options...
{
    what=$1
    shift
    count=$((count + 1))
    if ! "$@" -Wall -Wextra -Werror -fsyntax-only -I "$source/include" -idirafter "$dlpack" \
        2>"$work/errors"; then
        failed=$((failed + 1))
        echo "FAILED: $what: $*"
        cat "$work/errors"
    fi
}

for header in $(cd "$source/include" && ls ./*.h); do
    header=${header#./}
    printf '#include <%s>\n#include <%s>\n' "$header" "$header" >"$work/alone.c"
    printf 'softmax_options options = SOFTMAX_OPTIONS_INIT;\n' >>"$work/alone.c"
    printf 'int main(void) { return softmax_version() == 0; }\n' >>"$work/alone.c"
    cp "$work/alone.c" "$work/alone.cc"
    for standard in c99 c11; do
        compile "$header as $standard" gcc -std=$standard -pedantic "$work/alone.c"
        compile "$header as $standard" clang -std=$standard -pedantic "$work/alone.c"
    done
    compile "$header as c++17" g++ -std=c++17 -pedantic "$work/alone.cc"
    compile "$header as c++17" clang++ -std=c++17 -pedantic "$work/alone.cc"
done
public=$count
for header in "$source"/src/numerics/*.h; do
    [ -e "$header" ] || continue
    printf '#include "%s"\n#include "%s"\nint main(void) { return 0; }\n' "$header" "$header" >"$work/alone.c"
    cp "$work/alone.c" "$work/alone.cc"
    for compiler in gcc clang; do
        compile "$header as c11" $compiler -std=c11 -Wno-unused-function "$work/alone.c"
    done
    for compiler in g++ clang++; do
        compile "$header as c++17" $compiler -std=c++17 -Wno-unused-function "$work/alone.cc"
    done
done
echo "$count compilations, $failed failed"
[ $public -ge 6 ] && [ $failed -eq 0 ]
