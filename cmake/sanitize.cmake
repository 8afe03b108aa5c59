# SOFTMAX_SANITIZE builds everything, tests and command too, under these sanitizers; the first report ends the run.
if(SOFTMAX_SANITIZE)
    if(SOFTMAX_SANITIZE MATCHES "thread" AND NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        # libgomp synchronises by futexes that ThreadSanitizer cannot see; libomp reports through libarcher.
        message(FATAL_ERROR "SOFTMAX_SANITIZE=thread needs clang with libomp, not ${CMAKE_C_COMPILER_ID}: "
            "configure with CC=clang")
    endif()
    add_compile_options(-fsanitize=${SOFTMAX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
    add_link_options(-fsanitize=${SOFTMAX_SANITIZE})
    # For tests. Archer, libomp's tool, loads by itself and tells ThreadSanitizer about barriers and forks; calls that the
    # uninstrumented libomp makes are not ours. This hides no race of ours: tests/project/planted.cmake proves it.
    set(softmax_sanitizer_environment "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1"
        "UBSAN_OPTIONS=print_stacktrace=1" "TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1")
endif()
