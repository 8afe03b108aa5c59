#!/bin/bash
# check_gpu.sh FOLDER: runs the programs of the target gpu_tests, which are in FOLDER, on the GPU; from the repository's root.
#   the library's own tests, their arrays moved to the GPU and back (through_device.c): hashes of every operation, type, option and layout against the
#   golden ones, special rows, errors against MPFR; every call captured in a graph; every kernel against the CPU; compute-sanitizer over few of them;
#   the Python package's tests that need a GPU, with the package that gpu_package.sh left in FOLDER/python
set -u
folder=$1
failed=0
ran=0

run() # words, command...
{
    local words=$1 log status
    shift
    log=$(mktemp)
    "$@" >"$log" 2>&1
    status=$?
    if [ $status -eq 77 ]; then
        echo "check-gpu: $(tail -1 "$log"); nothing was run"
        rm -f "$log"
        exit 0
    fi
    ran=$((ran + 1))
    if [ $status -ne 0 ]; then
        failed=$((failed + 1))
        grep -E 'FAILED|=========' "$log" | head -8
        tail -3 "$log"
        echo "FAILED  $words"
    else
        printf 'passed  %-44s %s\n' "$words" "$(grep -E 'on the GPU:|checks,|ERROR SUMMARY|RACECHECK SUMMARY|^[0-9]+ passed' "$log" | tr '\n' ';' | cut -c1-100)"
    fi
    rm -f "$log"
}

# Its exit status is bad for warnings too: several lanes of a warp that write the same value. Errors count.
racecheck()
{
    local log
    log=$(mktemp)
    compute-sanitizer --tool racecheck "$@" | tee "$log"
    grep -q 'RACECHECK SUMMARY.*(0 errors' "$log" && grep -q ', 0 failed$' "$log"
    local status=$?
    rm -f "$log"
    return $status
}

golden=tests/golden/bits.txt
run "bits" "$folder/gpu_bits" --few --golden $golden
run "bits, each call a graph" env SOFTMAX_TEST_GRAPHS=1 "$folder/gpu_bits" --every 29 --golden $golden
run "every kernel against the CPU" "$folder/gpu_kernel_sweep"
run "errors of the device and the host" "$folder/gpu_device_errors"
run "states in device memory" "$folder/gpu_device_states"
for test in special special_loss far_scores; do
    run "$test" "$folder/gpu_$test"
done
for operation in softmax log_softmax logsumexp; do
    [ -x "$folder/gpu_accuracy_scores" ] && run "accuracy of $operation" "$folder/gpu_accuracy_scores" $operation
done
for test in accuracy_backward accuracy_cross_entropy accuracy_far; do
    [ -x "$folder/gpu_$test" ] && run "$test" "$folder/gpu_$test"
done
if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck initcheck; do
        run "compute-sanitizer $tool" compute-sanitizer --tool $tool --error-exitcode 9 "$folder/gpu_kernel_sweep" --few
    done
    run "compute-sanitizer racecheck" racecheck "$folder/gpu_kernel_sweep" --few
else
    echo "check-gpu: compute-sanitizer is not installed here"
fi
if [ -d "$folder/python" ]; then
    packages=$(cd "$folder/python" && pwd)
    for test in cuda torch_cuda triton four_ways; do
        run "Python: test_$test" env PYTHONPATH="$packages" SOFTMAX_SOURCE="$PWD" python3 -m pytest -q -p no:cacheprovider python/tests/test_$test.py
    done
else
    echo "check-gpu: the Python package was not built here, and its tests were not run"
fi
echo "check-gpu: $ran runs, $failed failed"
[ $failed -eq 0 ]
