# Where <dlpack/dlpack.h> is: SOFTMAX_DLPACK_INCLUDE_DIR.
find_path(SOFTMAX_DLPACK_INCLUDE_DIR dlpack/dlpack.h
    DOC "The folder that holds dlpack/dlpack.h (Debian: libdlpack-dev)" NO_CMAKE_FIND_ROOT_PATH)
if(NOT SOFTMAX_DLPACK_INCLUDE_DIR)
    message(FATAL_ERROR "dlpack/dlpack.h was not found: 'make setup' installs it (Debian: libdlpack-dev), "
        "or name its folder with -DSOFTMAX_DLPACK_INCLUDE_DIR=")
endif()
if(CMAKE_CROSSCOMPILING)
    # The header fits every processor, the other headers beside it do not: let the cross compiler see it alone.
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/dlpack-include)
    file(CREATE_LINK ${SOFTMAX_DLPACK_INCLUDE_DIR}/dlpack ${CMAKE_BINARY_DIR}/dlpack-include/dlpack SYMBOLIC)
    set(SOFTMAX_DLPACK_INCLUDE_DIR ${CMAKE_BINARY_DIR}/dlpack-include)
endif()
