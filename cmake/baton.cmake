# What every target of Baton shares: language level, warnings, sanitizers, ccache, and two
# functions that keep the per-folder lists short.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

find_package(Threads REQUIRED)

# Warnings stop the build of the compiler that CI has; the new warnings of another one must not stop
# a newcomer's.
set(BATON_CI_COMPILER OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^12\\.")
  set(BATON_CI_COMPILER ON)
endif()
option(BATON_WERROR "warnings are errors" ${BATON_CI_COMPILER})

# Interface target with the flags of our own code (third-party sources do not get them).
add_library(baton_flags INTERFACE)
target_include_directories(baton_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(
  baton_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wshadow>
                        $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${BATON_WERROR}>>:-Werror>)
target_link_libraries(baton_flags INTERFACE Threads::Threads)
if(BATON_SANITIZE)
  target_compile_options(
    baton_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${BATON_SANITIZE}
                          -fno-sanitize-recover=all -fno-omit-frame-pointer>)
  target_link_options(baton_flags INTERFACE -fsanitize=${BATON_SANITIZE})
endif()

# baton_library(name SOURCES ... DEPENDS ...): a static library of one folder.
function(baton_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC baton_flags ${ARG_DEPENDS})
endfunction()

# baton_test(name SOURCES ... DEPENDS ...): one GoogleTest binary, registered with CTest.
# Tests run with the repository root as working directory, so testdata/ paths are relative.
function(baton_test name)
  if(NOT BATON_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE baton_flags ${ARG_DEPENDS} GTest::gtest_main GTest::gmock)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600)
endfunction()

# baton_benchmark(name SOURCES ... DEPENDS ...): a Google Benchmark binary; never part of CTest.
function(baton_benchmark name)
  if(NOT BATON_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  find_package(benchmark REQUIRED)
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE baton_flags ${ARG_DEPENDS} benchmark::benchmark)
endfunction()
