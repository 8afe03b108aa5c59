#!/bin/sh
# headers.sh SOURCE DLPACK_DIR: each public header, alone in a file, compiles as C99, C11 and C++17 under gcc and clang.
source=$1
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
    if ! "$@" -Wall -Wextra -pedantic -Werror -fsyntax-only -I "$source/include" -idirafter "$dlpack" \
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
        compile "$header as $standard" gcc -std=$standard "$work/alone.c"
        compile "$header as $standard" clang -std=$standard "$work/alone.c"
    done
    compile "$header as c++17" g++ -std=c++17 "$work/alone.cc"
    compile "$header as c++17" clang++ -std=c++17 "$work/alone.cc"
done
echo "$count compilations, $failed failed"
[ $count -ge 6 ] && [ $failed -eq 0 ]
