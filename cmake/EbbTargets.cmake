# The kinds of target: ebb_layer(), ebb_test(), ebb_bench(), and ebb_build, which says how
# all of them are compiled. Nothing here is exported to users.

include(GoogleTest)

add_library(ebb_build INTERFACE)
target_compile_features(ebb_build INTERFACE cxx_std_20 c_std_11)
target_include_directories(ebb_build INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(
  ebb_build
  INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Wshadow>
            # Error messages name files from the project root, and a second clone finds what
            # the first one compiled in ccache.
            $<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>
            $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety;-Werror=thread-safety>)

if(EBB_SANITIZE)
  target_compile_options(ebb_build INTERFACE -fsanitize=${EBB_SANITIZE} -fno-sanitize-recover=all
                                             -fno-omit-frame-pointer)
  target_link_options(ebb_build INTERFACE -fsanitize=${EBB_SANITIZE})
endif()
if(EBB_SANITIZE MATCHES thread)
  # See the top of that file. Await and LockWhen take a `const Condition&`.
  add_library(ebb_tsan_abseil STATIC tests/support/tsan_abseil.cpp)
  target_link_libraries(ebb_tsan_abseil PUBLIC absl::synchronization)
  target_compile_features(ebb_tsan_abseil PRIVATE cxx_std_20)
  target_link_libraries(ebb_build INTERFACE ebb_tsan_abseil)
  foreach(method 4LockEv 6UnlockEv 7TryLockEv 10ReaderLockEv 12ReaderUnlockEv
                 5AwaitERKNS0_9ConditionE 8LockWhenERKNS0_9ConditionE)
    set(symbol _ZN4absl7debian35Mutex${method})
    target_link_options(ebb_build INTERFACE LINKER:--wrap=${symbol},--undefined=__wrap_${symbol})
  endforeach()
endif()

# Compiles each header alone, so that none leans on what its users include before it.
add_custom_target(ebb_headers ALL)

# ebb_layer(<name> HEADERS <file>... [PRIVATE_HEADERS <file>...] SOURCES <file>...
#           USES <target>... [PRIVATE_USES <target>...])
#
# A folder of a layer is one static library, ebb_<name>. Those of the folders that jobs build
# on make up libebbtide (cmake/EbbPackage.cmake); `bench`, `config` and `cli` are for programs of ours.
# HEADERS are installed; PRIVATE_HEADERS are for our own sources and tests.
function(ebb_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;PRIVATE_HEADERS;SOURCES;USES;PRIVATE_USES")
  add_library(ebb_${name} STATIC ${arg_SOURCES})
  if(NOT name MATCHES "^(bench|config|cli)(_|$)")
    list(TRANSFORM arg_HEADERS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE headers)
    set_property(GLOBAL APPEND PROPERTY EBB_PACKAGE_LAYERS ebb_${name})
    set_property(GLOBAL APPEND PROPERTY EBB_PACKAGE_HEADERS ${headers})
  endif()
  target_sources(ebb_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}
                                    FILES ${arg_HEADERS} ${arg_PRIVATE_HEADERS})
  target_link_libraries(ebb_${name} PUBLIC ebb_build ${arg_USES} PRIVATE ${arg_PRIVATE_USES})
  set_target_properties(ebb_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON
                                               VERIFY_INTERFACE_HEADER_SETS ON)
  add_dependencies(ebb_headers ebb_${name}_verify_interface_header_sets)
endfunction()

# ebb_test(<name> <stem>...): builds tests/<layer>/<stem>_test.cpp against ebb_<name>, so that it cannot
# use a higher folder. <layer> is the first folder of the calling CMakeLists.txt.
function(ebb_test name)
  if(NOT EBB_TESTS)
    return()
  endif()
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  string(REGEX REPLACE "/.*" "" layer ${folder})
  foreach(stem IN LISTS ARGN)
    add_executable(${stem}_test ${PROJECT_SOURCE_DIR}/tests/${layer}/${stem}_test.cpp)
    target_link_libraries(${stem}_test PRIVATE ebb_${name} GTest::gmock_main absl::flat_hash_map)
    if(EBB_SANITIZE) # A sanitizer takes longer to start than most cases to run.
      add_test(NAME ${stem} COMMAND ${stem}_test --gtest_brief=1)
      set_tests_properties(${stem} PROPERTIES LABELS ${layer} TIMEOUT 900)
    else()
      gtest_discover_tests(${stem}_test NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
                           PROPERTIES LABELS ${layer} TIMEOUT 300)
    endif()
  endforeach()
endfunction()

# ebb_bench(<name> <stem>...): builds bench/<stem>_bench.cpp. A short run of it is a test:
# a benchmark that no longer runs, or no longer verifies, should fail the build.
function(ebb_bench name)
  if(NOT EBB_BENCH)
    return()
  endif()
  foreach(stem IN LISTS ARGN)
    add_executable(${stem}_bench ${PROJECT_SOURCE_DIR}/bench/${stem}_bench.cpp)
    target_link_libraries(${stem}_bench PRIVATE ebb_${name} benchmark::benchmark_main)
    if(EBB_TESTS)
      add_test(NAME bench.${stem} COMMAND ${stem}_bench --benchmark_min_time=0.001)
      set_tests_properties(bench.${stem} PROPERTIES LABELS bench TIMEOUT 600)
    endif()
  endforeach()
endfunction()
