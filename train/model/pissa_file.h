/* train/model/pissa_file.h - the initial adapters of PiSSA in a file, so that a run that
 * resumes does not compute them again; for model*.c only. */
#ifndef TRAIN_MODEL_PISSA_FILE_H
#define TRAIN_MODEL_PISSA_FILE_H

#include "train/model/model_pissa.h"

/* Read the adapter of a matrix, whose values are `whole`, from the file of
 * model_keep_pissa.  False, without an error: it has none, or of another matrix. */
bool pissa_file_read(const struct model *m, const struct parameter *p, const float *whole,
                     struct pissa *out);

#endif
