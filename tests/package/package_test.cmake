# Run with cmake -P; see CMakeLists.txt.

function(run what)
  message(STATUS "${what}")
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${what}: ${result}\n${ARGN}\n${output}\n${errors}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(example ${SOURCE_DIR}/examples/own_op)
file(REMOVE_RECURSE ${WORK_DIR}/first ${WORK_DIR}/prefix ${WORK_DIR}/build)
file(MAKE_DIRECTORY ${WORK_DIR})
run("install" ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/first)
# What is installed can be moved.
file(RENAME ${WORK_DIR}/first ${WORK_DIR}/prefix)
set(prefix ${WORK_DIR}/prefix)

foreach(file bin/ebb share/ebbtide/kjv_genesis_to_esther.txt include/ebbtide/offload/engine/engine.h)
  if(NOT EXISTS ${prefix}/${file})
    message(FATAL_ERROR "not installed: ${file}")
  endif()
endforeach()
run("the installed program" ${prefix}/bin/ebb --version)
if(NOT output MATCHES "${VERSION}")
  message(FATAL_ERROR "ebb --version says '${output}', not ${VERSION}")
endif()
# Finds the profiles and the text that ship without a source tree.
run("a dry run of it" ${CMAKE_COMMAND} -E chdir ${WORK_DIR} ${prefix}/bin/ebb train --dry --steps 1
    --layers 2 --hidden 64 --heads 4 --batch 2 --seq 32)

run("configure the example" ${CMAKE_COMMAND} -S ${example} -B ${WORK_DIR}/build -G Ninja
    -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_C_COMPILER=${C}
    -D CMAKE_BUILD_TYPE=Release)
run("build the example" ${CMAKE_COMMAND} --build ${WORK_DIR}/build)
run("run the example" ${WORK_DIR}/build/own_op)
message(STATUS "${output}")

file(GLOB_RECURSE pc ${prefix}/ebbtide.pc)
cmake_path(GET pc PARENT_PATH pc_dir)
set(ENV{PKG_CONFIG_PATH} ${pc_dir})
run("ask pkg-config" pkg-config --cflags --libs ebbtide)
separate_arguments(flags UNIX_COMMAND "${output}")
# No installed header leans on one that is not.
file(GLOB_RECURSE headers RELATIVE ${prefix}/include/ebbtide ${prefix}/include/ebbtide/*.h)
list(TRANSFORM headers REPLACE "(.+)" "#include \"\\1\"\n")
string(JOIN "" includes ${headers})
file(WRITE ${WORK_DIR}/every_header.cpp "${includes}")
run("compile every header" ${CXX} -fsyntax-only ${WORK_DIR}/every_header.cpp ${flags})
run("compile the example with it" ${CXX} -O1 ${example}/main.cpp -o ${WORK_DIR}/build/own_op_pc ${flags})
run("ask for the library's folder" pkg-config --variable=libdir ebbtide)
run("run the example" ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${output} ${WORK_DIR}/build/own_op_pc)
