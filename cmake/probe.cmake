# SPDX-License-Identifier: Apache-2.0
# libplumb_probe.so, which CUDA loads into other people's programs: base/core and the half of
# src/probe that runs there, with libc alone and few names to be seen from outside.
file(GLOB PLB_PROBE_SOURCES CONFIGURE_DEPENDS src/base/core/*.c)
foreach(name blocks breakdown buffers counted cupti device_facts governor guest_blocks guest_marks
             guest_records inject mapped mark_name nvtx options range_profiler ranges recording
             spool sum takers tally timeline trace)
  list(APPEND PLB_PROBE_SOURCES src/probe/${name}.c)
endforeach()
add_library(plumb_probe SHARED ${PLB_PROBE_SOURCES})
target_include_directories(plumb_probe PRIVATE include src)
target_link_libraries(plumb_probe PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(plumb_probe PRIVATE
                    -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/probe.map)
set_target_properties(plumb_probe PROPERTIES LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/probe.map)
install(TARGETS plumb_probe LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
