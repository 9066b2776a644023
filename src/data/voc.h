// SPDX-License-Identifier: Apache-2.0
// PASCAL VOC 2012 (http://host.robots.ox.ac.uk/pascal/VOC/voc2012/): JPEGImages/ID.jpg,
// Annotations/ID.xml with a box for every object, SegmentationClass/ID.png whose palette indices
// are classes, ImageSets/Main/train.txt and val.txt with the IDs of each split. The test labels
// were never published: val is the split to test with.
//
// As a set to classify it has two forms: CROPS, one sample an object, cut out by its box and
// resized to a square; IMAGES, one sample a picture, resized and cut in the middle, with all
// classes that are in it. Objects marked difficult are left out of both, as the challenge does.
// The XML is read by libxml2; PLB_EMISSING in a build without it.
#ifndef PLB_DATA_VOC_H
#define PLB_DATA_VOC_H

#include "base/core/arena.h"
#include "data/dataset.h"
#include "io/image.h"

enum { PLB_VOC_CLASSES = 20, PLB_VOC_BACKGROUND = 0, PLB_VOC_BORDER = 255 };

PLB_API extern const char *const plb_voc_names[PLB_VOC_CLASSES];

typedef struct plb_voc_object {
    int class;                        // of plb_voc_names
    int64_t left, top, right, bottom; // pixels from 0; right and bottom lie outside
    bool difficult;
} plb_voc_object;

typedef struct plb_voc_annotation {
    int64_t width, height; // of the picture
    plb_voc_object *objects;
    size_t count;
} plb_voc_annotation;

// Reads one annotation; the objects are the arena's. PLB_EINVAL, with label and line: not XML, no
// size, a class that VOC does not have, a box that is empty or outside the picture.
PLB_API PLB_MUST_USE plb_status plb_voc_annotation_parse(const void *bytes, size_t size_bytes,
                                                         const char *label, plb_arena *arena,
                                                         plb_voc_annotation *out);

// The mask of a picture: PLB_VOC_BACKGROUND, 1 + class, or PLB_VOC_BORDER. PLB_EINVAL for other
// indices. out->index is the caller's to plb_free.
PLB_API PLB_MUST_USE plb_status plb_voc_mask_read(const char *path, plb_index_image *out);

typedef enum plb_voc_form { PLB_VOC_CROPS, PLB_VOC_IMAGES } plb_voc_form;

typedef struct plb_voc_options {
    plb_voc_form form;
    int64_t size; // of samples; 0: 96
} plb_voc_options;

// `folder` holds JPEGImages and Annotations; without ImageSets/Main every annotation is in both
// splits. A sample's label is the object's class, of IMAGES the class of the largest object;
// pictures without an object that counts are left out. Every annotation is read at once, pictures
// when asked for.
PLB_API PLB_MUST_USE plb_status plb_voc_open(const char *folder, plb_data_split split,
                                             const plb_voc_options *options, plb_dataset **out);

// Bit c: class c is in the sample. Only for sets opened above.
PLB_API uint32_t plb_voc_classes(const plb_dataset *set, int64_t i);
// The path of sample i's picture into text[size_bytes]; returns text. Likewise.
PLB_API const char *plb_voc_path(const plb_dataset *set, int64_t i, char *text, size_t size_bytes);

#endif
