# SOFTMAX_SANITIZE builds everything, tests and command too, under these sanitizers; the first report ends the run.
if(SOFTMAX_SANITIZE)
    if(SOFTMAX_SANITIZE MATCHES "thread" AND NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        # libgomp synchronises by futexes that ThreadSanitizer cannot see; libomp reports through libarcher.
        message(FATAL_ERROR "SOFTMAX_SANITIZE=thread needs clang with libomp, not ${CMAKE_C_COMPILER_ID}: "
            "configure with CC=clang")
    endif()
    add_compile_options(-fsanitize=${SOFTMAX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
    add_link_options(-fsanitize=${SOFTMAX_SANITIZE})
    # For tests. libomp keeps some memory of its own for good: what it allocated itself is no leak of ours. Only the direct caller
    # of malloc is kept (malloc_context_size), so that this does not cover what our loops allocate in libomp's threads.
    set(suppressed ${CMAKE_BINARY_DIR}/leaks_of_others.txt)
    file(WRITE ${suppressed} "leak:libomp.so\n")
    # Archer, libomp's tool, loads by itself and tells ThreadSanitizer about barriers and forks; calls that the uninstrumented
    # libomp makes are not ours. tests/project/planted.cmake proves that neither hides a leak or a race of ours.
    set(softmax_sanitizer_environment "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:malloc_context_size=2"
        "LSAN_OPTIONS=suppressions=${suppressed}:print_suppressions=0" "UBSAN_OPTIONS=print_stacktrace=1"
        "TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1")
endif()
