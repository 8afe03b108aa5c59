# Headers, both libraries, find_package(softmax) and softmax.pc. All may be moved after installation.
include(CMakePackageConfigHelpers)
set(softmax_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/softmax)

install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS softmax_shared softmax_static EXPORT softmax_targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT softmax_targets NAMESPACE softmax:: DESTINATION ${softmax_config_dir} FILE softmax-targets.cmake)

configure_package_config_file(cmake/softmax-config.cmake.in ${CMAKE_BINARY_DIR}/softmax-config.cmake
    INSTALL_DESTINATION ${softmax_config_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/softmax-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/softmax-config.cmake ${CMAKE_BINARY_DIR}/softmax-config-version.cmake
    DESTINATION ${softmax_config_dir})

file(RELATIVE_PATH softmax_pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" softmax_pc_prefix ${softmax_pc_prefix})
set(softmax_pc_dlpack "")
if(NOT SOFTMAX_DLPACK_INCLUDE_DIR IN_LIST CMAKE_C_IMPLICIT_INCLUDE_DIRECTORIES AND NOT CMAKE_CROSSCOMPILING)
    set(softmax_pc_dlpack " -I${SOFTMAX_DLPACK_INCLUDE_DIR}")
endif()
set(softmax_pc_private -lm)
if(SOFTMAX_HAVE_CUDA)
    string(PREPEND softmax_pc_private "${SOFTMAX_CUDART_LIBRARY} -ldl -lrt -lpthread ")
endif()
foreach(library IN LISTS softmax_openmp_runtime)
    if(library MATCHES "/")
        string(APPEND softmax_pc_private " ${library}")
    else()
        string(APPEND softmax_pc_private " -l${library}")
    endif()
endforeach()
configure_file(cmake/softmax.pc.in ${CMAKE_BINARY_DIR}/softmax.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/softmax.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
