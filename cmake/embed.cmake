# SPDX-License-Identifier: Apache-2.0
# Writes a file's bytes as a C array that ends in 0:
#   cmake -DINPUT=FILE -DOUTPUT=FILE.c -DNAME=plb_array -P cmake/embed.cmake
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "extern const char ${NAME}[];\nconst char ${NAME}[] = {${bytes}0};\n")
