/* runner/output/report_similar.h - findings that differ only in their key, which the text
 * output reports as one. */
#ifndef RUNNER_OUTPUT_REPORT_SIMILAR_H
#define RUNNER_OUTPUT_REPORT_SIMILAR_H

#include "patcher/findings/finding.h"

/* Return whether the two findings say the same about two keys: the rule, the sentences and
 * the kind of edit are the same, and neither belongs to a group.  Errors are never similar:
 * scripts read the line of each. */
bool report_is_similar(const struct finding *a, const struct finding *b);

#endif
