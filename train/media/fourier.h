/* train/media/fourier.h - power spectra of real values, in double, two sequences at a time. */
#ifndef TRAIN_MEDIA_FOURIER_H
#define TRAIN_MEDIA_FOURIER_H

#include "base/error.h"

enum { FOURIER_LANES = 2, FOURIER_MAX = 1 << 16 };

/* The same element of several sequences. */
typedef double fourier_lanes __attribute__((vector_size(8 * FOURIER_LANES)));

struct fourier; /* constants of a length; may be shared by threads */

/* Return whether there is a transform of this length: even, at most FOURIER_MAX, and with no
 * prime factors other than 2, 3 and 5. */
bool fourier_fits(size_t length);
struct fourier *fourier_new(size_t length); /* of a length that fits */
void fourier_free(struct fourier *fourier); /* NULL is allowed */

/* Return how many elements fourier_power requires as scratch memory. */
size_t fourier_scratch(const struct fourier *fourier);
/* power[k] = |sum over j of x[j] e^(-2 pi i j k / length)|^2 for k = 0 .. length / 2 */
void fourier_power(const struct fourier *fourier, const fourier_lanes *x,
                   fourier_lanes *power, fourier_lanes *scratch);

#endif
