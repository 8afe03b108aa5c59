#!/bin/bash
# check.sh BUILD STAGE...: builds and tests what each stage names, two stages at a time, goes on after a failure, and closes with the totals.
#   native      all tests but the exhaustive ones
#   address     the C tests under AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer (clang)
#   thread      the C tests under ThreadSanitizer (clang, libomp with Archer)
#   aarch64     cross built for 64-bit Arm, the C tests run under user-mode qemu
#   fuzz        every fuzzer for a minute, in the address build
#   python      the wheel as pip builds it (without CUDA), in an environment of its own, and the package's tests
#   exhaustive  the tests that take very long: native build
set -u
build=$1
shift
source=$(cd "$(dirname "$0")/../.." && pwd)
jobs=$(nproc)
mkdir -p "$build"
build=$(cd "$build" && pwd)
results=$(mktemp -d) # STAGE: passed, failed, skipped; STAGE.report: its lines of the summary
trap 'rm -rf "$results"' EXIT
# ThreadSanitizer of clang 14 does not know address layouts of more than 28 random bits: switched off where allowed.
runner=(env)
setarch -R true 2>/dev/null && runner=(setarch -R)
# Idle threads sleep: two tests at a time on two processors would else wait for each other's spinning.
export OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0
clang=(-DCMAKE_C_COMPILER=clang -DSOFTMAX_WERROR=ON)
# Continuous integration refuses gcc's warnings too; a user's newer gcc may have more to say than the one we know.
native_options=(${CI:+-DSOFTMAX_WERROR=ON})
# Code for 8.0 runs on 8.6 and 8.9 too: two capabilities are enough to see that the kernels compile.
cuda_options=("-DSOFTMAX_CUDA_ARCHITECTURES=80;90")

count() # stage, junit file: its numbers
{
    local head tests=0 failures=0 errors=0 disabled=0 skips=0
    head=$(tr '\n' ' ' <"$2" | grep -o '<testsuite [^>]*>')
    eval "$(grep -oE '\b(tests|failures|errors|disabled|skipped)="[0-9]+"' <<<"$head" | sed 's/^skipped=/skips=/')"
    failures=$((failures + errors))
    skips=$((skips + disabled))
    echo $((tests - failures - skips)) $failures $skips >"$results/$1"
    printf '%-11s %4d passed %3d failed %3d skipped  %4d s\n' "$1" $((tests - failures - skips)) $failures $skips $SECONDS >"$results/$1.report"
}

broken() # stage, words: a stage that could not run counts as one failure
{
    echo 0 1 0 >"$results/$1"
    printf '%-11s FAILED: %s\n' "$1" "$2" >"$results/$1.report"
}

stage() # name, folder, ctest options, cmake options...: configure, build, test
{
    local name=$1 folder=$2 log=$build/check-$1.log
    local -a ctest_options
    read -ra ctest_options <<<"$3"
    shift 3
    # One stage at a time in a folder: address and fuzz share theirs.
    mkdir -p "$folder"
    exec 9>"$folder/check.lock"
    flock 9
    SECONDS=0
    printf '\n==== %s ====\n' "$name"
    if ! { cmake -S "$source" -B "$folder" "$@" && cmake --build "$folder" -j "$jobs"; } >"$log" 2>&1; then
        grep -nE 'error|Error|undefined reference' "$log" | head -40
        tail -5 "$log"
        broken "$name" "did not build; the whole log is $log"
        return
    fi
    grep -E '^-- Test .* is not built' "$log"
    rm -f "$folder/junit.xml"
    "${runner[@]}" ctest --test-dir "$folder" -j "$jobs" --output-on-failure --no-tests=error \
        --output-junit "$folder/junit.xml" "${ctest_options[@]}"
    if ! grep -q '<testcase' "$folder/junit.xml" 2>/dev/null; then
        broken "$name" "ran no test"
        return
    fi
    count "$name" "$folder/junit.xml"
    # Which instruction sets ran, and which could not: from the test that forces each.
    local isas
    isas=$(grep -hE '^isa [a-z0-9]+: ' "$folder/Testing/Temporary/LastTest.log" | sort -u | sed 's/^isa //' |
        paste -sd ';' | sed 's/;/; /g')
    [ -n "$isas" ] && echo "            $isas" >>"$results/$name.report"
}

python() # the wheel, then pytest
{
    local venv=$build/venv-python wheels=$build/python/wheels log=$build/check-python.log
    SECONDS=0
    printf '\n==== python ====\n'
    rm -rf "$wheels" "$build/python/junit.xml"
    mkdir -p "$wheels"
    if ! { sh "$source/cmake/setup.sh" "$source/packages.apt" "$source/requirements-python.txt" "$venv" &&
        SKBUILD_CMAKE_DEFINE="SOFTMAX_CUDA=OFF${CI:+;SOFTMAX_WERROR=ON}" \
            "$venv/bin/python" -m pip wheel --disable-pip-version-check --no-deps -w "$wheels" "$source" &&
        "$venv/bin/python" -m pip install --disable-pip-version-check --no-deps --force-reinstall "$wheels"/*.whl; } \
        >"$log" 2>&1; then
        tail -30 "$log"
        broken python "did not build; the whole log is $log"
        return
    fi
    echo "built and installed in $SECONDS s"
    SOFTMAX_WHEEL=$(echo "$wheels"/*.whl) SOFTMAX_SOURCE=$source SOFTMAX_BUILD=$build \
        "$venv/bin/python" -m pytest -q -p no:cacheprovider --junitxml "$build/python/junit.xml" "$source/python/tests"
    if ! grep -q '<testcase' "$build/python/junit.xml" 2>/dev/null; then
        broken python "ran no test"
        return
    fi
    count python "$build/python/junit.xml"
}

run_stage() # name
{
    case $1 in
    native) stage native "$build" "-LE exhaustive" "${native_options[@]}" "${cuda_options[@]}" ;;
    exhaustive) stage exhaustive "$build" "-L exhaustive" ;;
    address) stage address "$build/address" "-LE exhaustive|fuzz" "${clang[@]}" -DSOFTMAX_SANITIZE=address,undefined \
        -DSOFTMAX_FUZZ=ON ;;
    fuzz) stage fuzz "$build/address" "-L fuzz" "${clang[@]}" -DSOFTMAX_SANITIZE=address,undefined -DSOFTMAX_FUZZ=ON ;;
    thread) stage thread "$build/thread" "-LE exhaustive" "${clang[@]}" -DSOFTMAX_SANITIZE=thread ;;
    python) python ;;
    aarch64) stage aarch64 "$build/aarch64" "-LE exhaustive" -DSOFTMAX_WERROR=ON \
        "-DCMAKE_TOOLCHAIN_FILE=$source/cmake/aarch64-linux-gnu.cmake" ;;
    esac
}

for name in "$@"; do
    case $name in
    native | address | thread | aarch64 | fuzz | python | exhaustive) ;;
    *)
        echo "check.sh: unknown stage '$name'; known: native address thread aarch64 fuzz python exhaustive" >&2
        exit 2
        ;;
    esac
done
# A stage has times when one processor is idle: a download, a last long test, a fuzzer. Whoever of the two is free takes the next stage. Compilers
# stand back behind the fuzzer, whose minute is of the clock.
for name in "$@"; do
    while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n; done
    if [ $# -eq 1 ]; then
        run_stage "$name"
    elif [ "$name" = fuzz ]; then
        run_stage "$name" 2>&1 | sed -u "s/^/$name: /" &
    else
        { renice -n 5 $BASHPID >/dev/null; run_stage "$name"; } 2>&1 | sed -u "s/^/$name: /" &
    fi
done
wait

printf '\n==== summary ====\n'
passed=0
failed=0
skipped=0
for name in "$@"; do
    read -r p f s 2>/dev/null <"$results/$name" || { p=0 f=1 s=0; echo "$name did not end"; }
    passed=$((passed + p))
    failed=$((failed + f))
    skipped=$((skipped + s))
    [ -f "$results/$name.report" ] && cat "$results/$name.report"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
