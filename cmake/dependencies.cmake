# SPDX-License-Identifier: Apache-2.0
# Libraries beyond libc, gathered in one interface target; docs/dependencies.md says why each.
add_library(plb_dependencies INTERFACE)

# The switch PLB_NAME of a library that is optional; PLB_HAVE_NAME says whether it is there.
macro(plb_switch name what)
  set(PLB_${name} "auto" CACHE STRING "${what}: auto, on or off")
  set_property(CACHE PLB_${name} PROPERTY STRINGS auto on off)
  set(PLB_HAVE_${name} OFF)
endmacro()

macro(plb_have name)
  set(PLB_HAVE_${name} ON)
  target_compile_definitions(plb_dependencies INTERFACE PLB_HAVE_${name}=1)
endmacro()

# What was not found ends it if it was asked for.
macro(plb_missing name what debian)
  if(PLB_${name} STREQUAL "on")
    message(FATAL_ERROR "PLB_${name}=on, but ${what} was not found (Debian: ${debian})")
  endif()
endmacro()

# An optional library that consists of pkg-config's modules, the arguments after `debian`.
macro(plb_optional name what debian)
  plb_switch(${name} "${what}")
  if(NOT PLB_${name} STREQUAL "off")
    pkg_check_modules(PLB_${name}_MODULES QUIET IMPORTED_TARGET ${ARGN})
    if(PLB_${name}_MODULES_FOUND)
      target_link_libraries(plb_dependencies INTERFACE PkgConfig::PLB_${name}_MODULES)
      plb_have(${name})
    else()
      string(REPLACE ";" " or " modules "${ARGN}")
      plb_missing(${name} "${modules}" "${debian}")
    endif()
  endif()
endmacro()

plb_switch(DNNL "oneDNN")
if(NOT PLB_DNNL STREQUAL "off")
  # Not by its CMake package, which in Debian insists on OpenCL's headers though nothing here uses
  # them.
  find_path(PLB_DNNL_INCLUDE dnnl.h)
  find_library(PLB_DNNL_LIBRARY dnnl)
  if(PLB_DNNL_INCLUDE AND PLB_DNNL_LIBRARY)
    target_include_directories(plb_dependencies SYSTEM INTERFACE ${PLB_DNNL_INCLUDE})
    target_link_libraries(plb_dependencies INTERFACE ${PLB_DNNL_LIBRARY})
    plb_have(DNNL)
  else()
    plb_missing(DNNL "oneDNN" "libdnnl-dev")
  endif()
endif()

# The f64 reference's matrix products. BLIS first: docs/dependencies.md says why.
plb_switch(BLAS "a CBLAS for f64")
if(NOT PLB_BLAS STREQUAL "off")
  find_path(PLB_BLIS_INCLUDE cblas.h PATH_SUFFIXES blis-openmp NO_CACHE)
  find_library(PLB_BLIS_LIBRARY blis PATH_SUFFIXES blis-openmp NO_CACHE)
  pkg_check_modules(OPENBLAS QUIET IMPORTED_TARGET openblas)
  if(PLB_BLIS_INCLUDE MATCHES "blis" AND PLB_BLIS_LIBRARY)
    target_include_directories(plb_dependencies SYSTEM INTERFACE ${PLB_BLIS_INCLUDE})
    target_link_libraries(plb_dependencies INTERFACE ${PLB_BLIS_LIBRARY})
    plb_have(BLAS)
  elseif(OPENBLAS_FOUND)
    target_link_libraries(plb_dependencies INTERFACE PkgConfig::OPENBLAS)
    plb_have(BLAS)
  else()
    plb_missing(BLAS "BLIS or OpenBLAS" "libblis-openmp-dev")
  endif()
endif()

find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
# 3.38 brought the operator ->> of JSON, 3.37 strict tables.
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3>=3.38)
target_link_libraries(plb_dependencies INTERFACE JPEG::JPEG PNG::PNG ZLIB::ZLIB PkgConfig::JANSSON
                                                 PkgConfig::SQLITE ${CMAKE_DL_LIBS})

# Downloads: libcurl fetches, OpenSSL's libcrypto checks (it is what Debian's libcurl stands on, so
# it adds no library at run time).
plb_optional(CURL "libcurl and libcrypto, for downloads" "libcurl4-openssl-dev libssl-dev" libcurl
             libcrypto)

# Data sets that come in archives, and VOC's annotations.
plb_optional(ARCHIVE "libarchive, for data sets in tar files" libarchive-dev libarchive)
plb_optional(XML "libxml2, for annotations of data sets" libxml2-dev libxml-2.0)

# Studies are written in YAML.
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
target_link_libraries(plb_dependencies INTERFACE PkgConfig::YAML)

# ONNX: protobuf-c's tables are generated from the schema that a package brings.
plb_switch(ONNX "reading and writing ONNX, by protobuf-c")
if(NOT PLB_ONNX STREQUAL "off")
  pkg_check_modules(PROTOBUF_C QUIET IMPORTED_TARGET libprotobuf-c)
  find_program(PLB_PROTOC_C protoc-c)
  find_file(PLB_ONNX_SCHEMA NAMES onnx-ml.proto onnx.proto PATH_SUFFIXES onnx
            PATHS /usr/include /usr/local/include NO_DEFAULT_PATH)
  if(NOT PLB_ONNX_SCHEMA) # the wheel of the Python package `onnx` has it too
    foreach(python "$ENV{PLB_PYTHON}" python3)
      if(python AND NOT PLB_ONNX_SCHEMA)
        execute_process(
          COMMAND
            ${python} -c
            "import importlib.util as u; print(*u.find_spec('onnx').submodule_search_locations)"
          OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
        find_file(PLB_ONNX_SCHEMA NAMES onnx-ml.proto PATHS "${folder}" NO_DEFAULT_PATH)
      endif()
    endforeach()
  endif()
  if(PROTOBUF_C_FOUND AND PLB_PROTOC_C AND PLB_ONNX_SCHEMA)
    set(folder ${CMAKE_BINARY_DIR}/onnx_schema)
    add_custom_command(
      OUTPUT ${folder}/onnx.pb-c.c ${folder}/onnx.pb-c.h
      COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
      COMMAND ${CMAKE_COMMAND} -E copy ${PLB_ONNX_SCHEMA} ${folder}/onnx.proto
      COMMAND ${PLB_PROTOC_C} --c_out=${folder} -I${folder} ${folder}/onnx.proto
      DEPENDS ${PLB_ONNX_SCHEMA} VERBATIM)
    add_library(plumb_onnx_schema STATIC ${folder}/onnx.pb-c.c ${folder}/onnx.pb-c.h)
    target_compile_options(plumb_onnx_schema PRIVATE -w)
    target_include_directories(plumb_onnx_schema SYSTEM INTERFACE ${folder})
    target_link_libraries(plumb_onnx_schema PUBLIC PkgConfig::PROTOBUF_C)
    target_link_libraries(plb_dependencies INTERFACE plumb_onnx_schema)
    plb_have(ONNX)
  else()
    plb_missing(ONNX "protobuf-c, protoc-c or onnx.proto"
                "libprotobuf-c-dev protobuf-c-compiler libonnx-dev")
  endif()
endif()

# Pictures of figures: only headers here, the library is opened when the first one is drawn.
plb_switch(CAIRO "PNG and PDF of figures, by cairo")
if(NOT PLB_CAIRO STREQUAL "off")
  pkg_check_modules(CAIRO QUIET cairo cairo-pdf)
  if(CAIRO_FOUND)
    target_include_directories(plb_dependencies SYSTEM INTERFACE ${CAIRO_INCLUDE_DIRS})
    plb_have(CAIRO)
  else()
    plb_missing(CAIRO "cairo" "libcairo2-dev")
  endif()
endif()

# The store as local pages.
plb_optional(HTTP "plumb serve, by libmicrohttpd" libmicrohttpd-dev libmicrohttpd>=0.9.71)
