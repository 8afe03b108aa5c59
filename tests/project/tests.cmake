# Tests of the project itself: its headers, symbols, layers, installation and set-up.
set(here ${CMAKE_CURRENT_LIST_DIR})
softmax_add_test(isa_report SOURCES project/isa_report.c)
if(SOFTMAX_SANITIZE)
    include(project/planted.cmake)
    return()
endif()
if(CMAKE_CROSSCOMPILING)
    return()
endif()

set(find_python /usr/bin/python3)
if(NOT EXISTS ${find_python})
    set(find_python python3)
endif()
softmax_add_script_test(project_headers COMMAND sh ${here}/headers.sh ${PROJECT_SOURCE_DIR}
    ${SOFTMAX_DLPACK_INCLUDE_DIR})
softmax_add_script_test(project_layers COMMAND ${find_python} ${here}/layers.py ${PROJECT_SOURCE_DIR})
softmax_add_script_test(project_symbols COMMAND ${find_python} ${here}/symbols.py ${PROJECT_SOURCE_DIR}
    $<TARGET_FILE:softmax_shared>)
softmax_add_script_test(project_objects COMMAND ${find_python} ${here}/objects.py $<TARGET_FILE:softmax_shared>
    $<TARGET_OBJECTS:softmax_objects>)
softmax_add_script_test(project_fast_math COMMAND ${find_python} ${here}/fast_math.py ${PROJECT_SOURCE_DIR}
    ${CMAKE_BINARY_DIR}/compile_commands.json)
softmax_add_script_test(project_install COMMAND sh ${here}/install.sh ${CMAKE_BINARY_DIR} ${here}/outside
    TIMEOUT 300)
