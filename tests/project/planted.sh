#!/bin/sh
# planted.sh PROGRAM FAULT: the sanitizer must report the fault, and nothing for the fault 'none'.
program=$1
fault=$2
case $fault in
none) expected='' ;;
race_openmp | race_threads) expected='ThreadSanitizer: data race' ;;
heap_overflow) expected='AddressSanitizer: heap-buffer-overflow' ;;
use_after_free) expected='AddressSanitizer: heap-use-after-free' ;;
signed_overflow) expected='signed integer overflow' ;;
leak | leak_in_loop) expected='LeakSanitizer: detected memory leaks' ;;
*) echo "planted.sh: unknown fault '$fault'"; exit 2 ;;
esac

output=$("$program" "$fault" 2>&1)
status=$?
if [ -z "$expected" ]; then
    [ $status -eq 0 ] && [ "$output" = "done" ] && { echo "quiet on a program without a fault"; exit 0; }
    echo "FAILED: a program without a fault: status $status, output:"
    echo "$output"
    exit 1
fi
if [ $status -ne 0 ] && echo "$output" | grep -q "$expected"; then
    echo "saw the planted fault: $(echo "$output" | grep -m1 "$expected")"
    exit 0
fi
echo "FAILED: the planted fault '$fault' went unseen: status $status, output:"
echo "$output"
exit 1
