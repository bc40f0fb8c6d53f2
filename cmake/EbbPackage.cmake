# What is installed: libebbtide with its headers, the program `ebb`, the profiles and the text
# that ship, and the two ways to find the library: CMake's (Ebbtide::ebbtide) and pkg-config's.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

get_property(layers GLOBAL PROPERTY EBB_PACKAGE_LAYERS)
get_property(headers GLOBAL PROPERTY EBB_PACKAGE_HEADERS)

# What these headers include, and so what users compile and link with.
set(public_absl any_invocable core_headers flat_hash_map status strings synchronization)

add_library(ebbtide SHARED)
add_library(Ebbtide::ebbtide ALIAS ebbtide)
target_sources(ebbtide PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${headers})
target_compile_features(ebbtide PUBLIC cxx_std_20)
list(TRANSFORM public_absl PREPEND absl:: OUTPUT_VARIABLE absl_targets)
target_link_libraries(ebbtide PUBLIC ${absl_targets} nlohmann_json::nlohmann_json PRIVATE ${layers})
# All of each layer, not only what another one of them calls.
list(TRANSFORM layers REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE archives)
list(JOIN archives "," archives)
target_link_options(ebbtide PRIVATE LINKER:--whole-archive,${archives},--no-whole-archive)
set_target_properties(ebbtide PROPERTIES LINKER_LANGUAGE CXX)
# No promise of a stable ABI before 1.0: each minor version has a name of its own.
set_target_properties(
  ebbtide PROPERTIES VERSION ${PROJECT_VERSION}
                     SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
if(NOT EBB_SANITIZE) # Its runtime is in the program.
  target_link_options(ebbtide PRIVATE LINKER:--no-undefined)
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Ebbtide)
set(data_dir ${CMAKE_INSTALL_DATADIR}/ebbtide) # Where bindings/cli looks for the text that ships.
install(TARGETS ebbtide EXPORT Ebbtide
        FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ebbtide)
install(EXPORT Ebbtide FILE EbbtideTargets.cmake NAMESPACE Ebbtide:: DESTINATION ${package_dir})
configure_package_config_file(cmake/EbbtideConfig.cmake.in EbbtideConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(EbbtideConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/EbbtideConfig.cmake
              ${PROJECT_BINARY_DIR}/EbbtideConfigVersion.cmake DESTINATION ${package_dir})

# The .pc file names the prefix from where it lies, so that the tree can be moved.
file(RELATIVE_PATH pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
list(TRANSFORM public_absl PREPEND absl_ OUTPUT_VARIABLE pc_requires)
list(APPEND pc_requires nlohmann_json)
list(JOIN pc_requires " " pc_requires)
configure_file(cmake/ebbtide.pc.in ebbtide.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ebbtide.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS ebb_program)
install(FILES examples/data/kjv_genesis_to_esther.txt DESTINATION ${data_dir})
install(FILES LICENSE THIRD_PARTY_NOTICES.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY runtime/device/sim/profiles DESTINATION ${data_dir}) # To copy and change.
