// SPDX-License-Identifier: Apache-2.0
// The page of a study, made from what the store holds: nothing on it is written by hand but the
// study's own words. Findings are computed (study/findings.c).
#ifndef PLB_STUDY_DOCUMENT_H
#define PLB_STUDY_DOCUMENT_H

#include "report/write.h"
#include "store/read.h"

// The document of a run that is a study; plb_document_free. PLB_EMISSING: the run is none.
PLB_API PLB_MUST_USE plb_status plb_study_document(plb_store *store, int64_t run_id,
                                                   plb_document **out);
// The document of any run: a study's, or that of its cases.
PLB_API PLB_MUST_USE plb_status plb_study_run_document(plb_store *store, const plb_run_row *run,
                                                       plb_document **out);

#endif
