# softmax_warnings: for every C file here. softmax_optimisation: the library's level, over the build type's.
set(softmax_warnings -Wall -Wextra)
if(SOFTMAX_WERROR)
    list(APPEND softmax_warnings -Werror)
endif()
set(softmax_optimisation $<$<CONFIG:Release,RelWithDebInfo>:-O3>)
