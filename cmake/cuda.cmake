# SPDX-License-Identifier: Apache-2.0
# libplumb_cuda.so, opened at run time. Needs CUDA's compiler and headers and cuDNN's headers, but
# no device and no driver; NVIDIA's libraries are found at run time. Kernels (kernels/*.cu) are
# compiled to fat binaries and put into the module as bytes.
set(PLB_CUDA "auto" CACHE STRING "the CUDA backend: auto, on or off")
set_property(CACHE PLB_CUDA PROPERTY STRINGS auto on off)
set(PLB_CUDA_ARCHS "80;90;100;120" CACHE STRING "compute capabilities to compile for")
set(PLB_CUDA_READY "" CACHE PATH "fat binaries of these kernels that another build made")
set(PLB_CUDA_MODE "${PLB_CUDA}")
if(DEFINED ENV{PLUMB_CUDA_ARCHS}) # where nothing compiled here is run: one is enough
  set(PLB_CUDA_ARCHS "$ENV{PLUMB_CUDA_ARCHS}")
endif()
if(DEFINED ENV{PLUMB_CUDA} AND "$ENV{PLUMB_CUDA}" MATCHES "^(auto|on|off)$")
  set(PLB_CUDA_MODE "$ENV{PLUMB_CUDA}")
endif()
if(PLB_SANITIZE OR PLB_FUZZ OR PLB_CUDA_MODE STREQUAL "off")
  return() # what has no device cannot run the module: the sanitizers' builds do without it
endif()

set(PLB_CUDA_FOLDERS $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda /usr/local/cuda-13.0)
find_program(PLB_NVCC nvcc HINTS ${PLB_CUDA_FOLDERS} PATH_SUFFIXES bin)
if(PLB_NVCC)
  get_filename_component(PLB_NVCC_FOLDER ${PLB_NVCC} REALPATH)
  get_filename_component(PLB_NVCC_FOLDER ${PLB_NVCC_FOLDER}/../.. ABSOLUTE)
endif()
find_path(PLB_CUDA_INCLUDE cuda.h HINTS ${PLB_NVCC_FOLDER} ${PLB_CUDA_FOLDERS}
          PATH_SUFFIXES include targets/x86_64-linux/include)
find_path(PLB_CUDNN_INCLUDE cudnn.h HINTS ${PLB_CUDA_INCLUDE} ${PLB_CUDA_FOLDERS}
          PATH_SUFFIXES include)
find_library(PLB_CUDA_STUB cuda HINTS ${PLB_NVCC_FOLDER} ${PLB_CUDA_FOLDERS}
             PATH_SUFFIXES lib64/stubs lib/stubs targets/x86_64-linux/lib/stubs)
set(PLB_CUDA_LACKS "")
foreach(part PLB_NVCC PLB_CUDA_INCLUDE PLB_CUDNN_INCLUDE PLB_CUDA_STUB)
  if(NOT PLB_CUDA_LACKS AND NOT ${part})
    set(PLB_CUDA_LACKS "${part} was not found")
  endif()
endforeach()
if(NOT PLB_CUDA_LACKS) # the driver's functions have other arguments in versions before
  file(STRINGS ${PLB_CUDA_INCLUDE}/cuda.h PLB_CUDA_VERSION REGEX "^#define CUDA_VERSION +[0-9]+")
  string(REGEX REPLACE "[^0-9]" "" PLB_CUDA_VERSION "${PLB_CUDA_VERSION}")
  if(NOT PLB_CUDA_VERSION OR PLB_CUDA_VERSION LESS 13000)
    set(PLB_CUDA_LACKS "${PLB_CUDA_INCLUDE}/cuda.h is version ${PLB_CUDA_VERSION}, not 13000")
  endif()
endif()
if(PLB_CUDA_LACKS AND PLB_CUDA_MODE STREQUAL "on")
  message(FATAL_ERROR "PLB_CUDA=on, but ${PLB_CUDA_LACKS}: CUDA 13 or later with cuDNN 9 "
                      "(set CUDA_HOME), or PLB_CUDA=off")
elseif(PLB_CUDA_LACKS)
  message(STATUS "CUDA: ${PLB_CUDA_LACKS}, so the backend is left out")
  return()
endif()

# One fat binary a .cu, for every architecture by its own code, and PTX for what comes later.
set(PLB_NVCC_FLAGS -O3 -std=c++17 --expt-relaxed-constexpr -Xptxas=-warn-spills
                   -I${CMAKE_SOURCE_DIR}/src -I${CMAKE_SOURCE_DIR}/include)
foreach(arch ${PLB_CUDA_ARCHS})
  list(APPEND PLB_NVCC_FLAGS -gencode=arch=compute_${arch},code=sm_${arch})
endforeach()
list(GET PLB_CUDA_ARCHS 0 arch)
list(APPEND PLB_NVCC_FLAGS -gencode=arch=compute_${arch},code=compute_${arch})
set(PLB_CUDA_BINARIES ${CMAKE_BINARY_DIR}/cuda)
file(MAKE_DIRECTORY ${PLB_CUDA_BINARIES})
file(GLOB PLB_CUDA_KERNELS CONFIGURE_DEPENDS src/engine/device/cuda/kernels/*.cu)
file(GLOB PLB_CUDA_HEADERS src/engine/device/cuda/kernels/*.cuh src/engine/device/cuda/kernels/*.h)
# Whether the other build has it, newer than what it is made of.
function(plb_fatbin_is_ready source ready out)
  set(${out} FALSE PARENT_SCOPE)
  if(PLB_CUDA_READY AND EXISTS ${ready})
    foreach(file ${source} ${PLB_CUDA_HEADERS})
      if(${file} IS_NEWER_THAN ${ready})
        return()
      endif()
    endforeach()
    set(${out} TRUE PARENT_SCOPE)
  endif()
endfunction()
set(PLB_CUDA_BYTES "")
set(PLB_CUDA_DECLARED "")
set(PLB_CUDA_LIST "")
set(PLB_CUDA_FATBINS "")
foreach(source ${PLB_CUDA_KERNELS})
  get_filename_component(name ${source} NAME_WE)
  set(fatbin ${PLB_CUDA_READY}/${name}.fatbin)
  plb_fatbin_is_ready(${source} ${fatbin} ready)
  if(NOT ready)
    set(fatbin ${PLB_CUDA_BINARIES}/${name}.fatbin)
    add_custom_command(
      OUTPUT ${fatbin}
      COMMAND ${PLB_NVCC} ${PLB_NVCC_FLAGS} -MD -MF ${fatbin}.d -MT ${fatbin} -fatbin -o ${fatbin}
              ${source}
      DEPENDS ${source} DEPFILE ${fatbin}.d
      COMMENT "Compiling kernels/${name}.cu for ${PLB_CUDA_ARCHS}" VERBATIM)
  endif()
  list(APPEND PLB_CUDA_FATBINS ${fatbin})
  string(APPEND PLB_CUDA_BYTES
         "__asm__(\".section .rodata\\n.balign 64\\nplb_fatbin_${name}:\\n\"\n"
         "        \".incbin \\\"${fatbin}\\\"\\n.byte 0\\n.previous\\n\");\n")
  string(APPEND PLB_CUDA_DECLARED "extern const unsigned char plb_fatbin_${name}[];\n")
  string(APPEND PLB_CUDA_LIST "    {\"${name}\", plb_fatbin_${name}},\n")
endforeach()
set(PLB_CUDA_LANGUAGE ${CMAKE_SOURCE_DIR}/src/engine/device/cuda/kernels/pointwise.cuh)
string(APPEND PLB_CUDA_BYTES
       "__asm__(\".section .rodata\\n.globl plb_cuda_pointwise_language\\n\"\n"
       "        \"plb_cuda_pointwise_language:\\n\"\n"
       "        \".incbin \\\"${PLB_CUDA_LANGUAGE}\\\"\\n.byte 0\\n.previous\\n\");\n")
file(CONFIGURE OUTPUT ${PLB_CUDA_BINARIES}/embedded.c CONTENT
"// SPDX-License-Identifier: Apache-2.0
// Written by cmake/cuda.cmake.
#include \"engine/device/cuda/embedded.h\"

#include <stddef.h>

@PLB_CUDA_BYTES@
@PLB_CUDA_DECLARED@
const plb_cuda_embedded plb_cuda_embedded_list[] = {
@PLB_CUDA_LIST@    {NULL, NULL},
};
" @ONLY)
set_source_files_properties(${PLB_CUDA_BINARIES}/embedded.c
                            PROPERTIES OBJECT_DEPENDS "${PLB_CUDA_FATBINS};${PLB_CUDA_LANGUAGE}")

# Everything of ours that has no state comes out of this archive, as far as it is needed; what has
# some is in cuda/host.c, which stands first.
add_library(plumb_archive STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:plumb_objects>)
file(GLOB PLB_CUDA_SOURCES CONFIGURE_DEPENDS src/engine/device/cuda/*.c)
add_library(plumb_cuda MODULE ${PLB_CUDA_SOURCES} ${PLB_CUDA_BINARIES}/embedded.c)
target_include_directories(plumb_cuda PRIVATE include src)
target_include_directories(plumb_cuda SYSTEM PRIVATE ${PLB_CUDA_INCLUDE} ${PLB_CUDNN_INCLUDE})
target_link_libraries(plumb_cuda PRIVATE plumb_archive ${PLB_CUDA_STUB} OpenMP::OpenMP_C
                                         Threads::Threads ${CMAKE_DL_LIBS} m)
target_link_options(
  plumb_cuda PRIVATE -Wl,--exclude-libs,ALL -Wl,--no-undefined -Wl,--gc-sections -Wl,--as-needed
  -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/cuda.map)
set_property(TARGET plumb_cuda APPEND PROPERTY LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/cuda.map)
set_target_properties(plumb_cuda PROPERTIES INSTALL_RPATH "$ORIGIN" SKIP_BUILD_RPATH ON)
install(TARGETS plumb_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
