# Faults planted on purpose: the sanitizer must see each (WILL_FAIL), and must be quiet on the same program without it.
# Without this, a sanitizer that sees nothing (as ThreadSanitizer under libgomp) would pass for a clean library.
add_executable(planted_fault ${CMAKE_CURRENT_LIST_DIR}/planted_fault.c)
target_compile_options(planted_fault PRIVATE ${OpenMP_C_FLAGS} -O0)
target_link_libraries(planted_fault PRIVATE OpenMP::OpenMP_C Threads::Threads)

if(SOFTMAX_SANITIZE MATCHES "thread")
    set(softmax_planted_faults race_openmp race_threads)
else()
    set(softmax_planted_faults heap_overflow use_after_free signed_overflow leak leak_in_loop)
endif()
foreach(fault IN ITEMS none ${softmax_planted_faults})
    add_test(NAME planted_${fault} COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/planted.sh
        $<TARGET_FILE:planted_fault> ${fault})
    softmax_test_properties(planted_${fault} "" 60)
endforeach()
