#!/bin/bash
# check_gpu.sh FOLDER: runs the programs of the target gpu_tests, which are in FOLDER, on the GPU; from the repository's root, a few at a time.
#   the library's own tests, their arrays moved to the GPU and back (through_device.c): hashes of every operation, type, option and layout against the
#   golden ones, special rows, errors against MPFR; every call captured in a graph; every kernel against the CPU; compute-sanitizer over few of them;
#   the Python package's tests that need a GPU, with the package that build_gpu.sh left in FOLDER/python
set -u
folder=$(cd "$1" && pwd)
cores=$(nproc)
at_once=$((cores > 16 ? 8 : (cores + 1) / 2))
notes=$(mktemp -d)
trap 'rm -rf "$notes"' EXIT
export OMP_NUM_THREADS=$((cores > at_once ? 4 : 2)) OMP_WAIT_POLICY=passive XLA_PYTHON_CLIENT_PREALLOCATE=false
running=0
ran=0

# words, command...: in the background; what becomes of it is in a file of its own
run()
{
    if [ $running -ge $at_once ]; then
        wait -n
        running=$((running - 1))
    fi
    running=$((running + 1))
    ran=$((ran + 1))
    one "$notes/$ran" "$@" &
}

one()
{
    local log=$1 words=$2 status begun=$SECONDS
    shift 2
    "$@" >"$log" 2>&1
    status=$?
    if [ $status -eq 77 ]; then
        echo "skipped $words: $(tail -1 "$log")"
        touch "$log.skipped"
    elif [ $status -ne 0 ]; then
        touch "$log.failed"
        grep -E 'FAILED|=========' "$log" | head -8
        tail -3 "$log"
        echo "FAILED  $words"
    else
        printf 'passed  %-40s %4d s  %s\n' "$words" $((SECONDS - begun)) \
            "$(grep -E 'on the GPU:|checks,|ERROR SUMMARY|RACECHECK SUMMARY|^[0-9]+ passed' "$log" | tr '\n' ';' | cut -c1-100)"
    fi
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

# The longest first.
golden=tests/golden/bits.txt
run "every kernel against the CPU" "$folder/gpu_kernel_sweep"
if command -v compute-sanitizer >/dev/null; then
    run "compute-sanitizer racecheck" racecheck "$folder/gpu_kernel_sweep" --few
    for tool in memcheck initcheck; do
        run "compute-sanitizer $tool" compute-sanitizer --tool $tool --error-exitcode 9 "$folder/gpu_kernel_sweep" --few
    done
else
    echo "check-gpu: compute-sanitizer is not installed here"
fi
if [ -d "$folder/python" ]; then
    tests="torch_cuda cuda triton four_ways"
    if ! python3 -c 'import gmpy2, ml_dtypes' 2>/dev/null; then
        echo "check-gpu: python3 has no gmpy2 or no ml_dtypes (requirements-python.txt): test_cuda, test_triton and test_four_ways were not run"
        tests=torch_cuda
    fi
    for test in $tests; do
        run "Python: test_$test" env PYTHONPATH="$folder/python${PYTHONPATH:+:$PYTHONPATH}" SOFTMAX_SOURCE="$PWD" \
            python3 -m pytest -q -p no:cacheprovider "python/tests/test_$test.py"
    done
else
    echo "check-gpu: the Python package was not built here, and its tests were not run"
fi
run "bits" "$folder/gpu_bits" --few --golden $golden
run "bits, each call a graph" env SOFTMAX_TEST_GRAPHS=1 "$folder/gpu_bits" --every 29 --golden $golden
for operation in softmax log_softmax logsumexp; do
    run "accuracy of $operation" "$folder/gpu_accuracy_scores" $operation
done
for test in accuracy_backward accuracy_cross_entropy accuracy_far; do
    run "$test" "$folder/gpu_$test"
done
for test in special special_loss far_scores; do
    run "$test" "$folder/gpu_$test"
done
run "options against the CPU" "$folder/gpu_option_sweep"
run "axes against the CPU" "$folder/gpu_axis_sweep"
run "losses that are a mean" "$folder/gpu_stream_losses"
run "errors of the device and the host" "$folder/gpu_device_errors"
run "states in device memory" "$folder/gpu_device_states"
run "softmax compare --device cuda" "$folder/../softmax" compare --device cuda examples/data/logits.npy
wait
failed=$(find "$notes" -name '*.failed' | wc -l)
skipped=$(find "$notes" -name '*.skipped' | wc -l)
echo "check-gpu: $ran runs, $failed failed, $skipped skipped, $SECONDS s"
[ "$failed" -eq 0 ]
