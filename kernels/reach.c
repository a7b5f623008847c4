/* kernels/reach.c - the rows that each row of a batch sees in attention. */
#include "config.h"

#include "kernels/reach.h"

void reach_causal(int32_t *reach, size_t rows)
{
    for (size_t n = 0; n < rows; n++)
        reach[n] = (int32_t)n + 1;
}

void reach_join(int32_t *reach, size_t first, size_t end)
{
    for (size_t n = first; n < end; n++)
        reach[n] = (int32_t)end;
}

/* The order of reach makes one pass over both enough.  No row of an earlier sequence
 * reaches k, and k reaches itself. */
void reach_since(int32_t *since, const int32_t *reach, size_t rows)
{
    int32_t row = 0;

    for (size_t k = 0; k < rows; k++) {
        while ((size_t)reach[row] <= k)
            row++;
        since[k] = row;
    }
}

bool reach_holds(const int32_t *reach, const int32_t *offsets, size_t sequences)
{
    for (size_t s = 0; s < sequences; s++)
        for (int32_t n = offsets[s]; n < offsets[s + 1]; n++)
            if (reach[n] <= n || reach[n] > offsets[s + 1] ||
                (n > offsets[s] && reach[n] < reach[n - 1]))
                return false;
    return true;
}

void reach_since_keys(int32_t *since, const int32_t *reach, const int32_t *offsets,
                      const int32_t *key_offsets, size_t sequences)
{
    for (size_t s = 0; s < sequences; s++) {
        int32_t row = offsets[s];

        for (int32_t k = key_offsets[s]; k < key_offsets[s + 1]; k++) {
            while (row < offsets[s + 1] && reach[row] <= k)
                row++;
            since[k] = row;
        }
    }
}

bool reach_keys_hold(const int32_t *reach, const int32_t *offsets,
                     const int32_t *key_offsets, size_t sequences)
{
    if (offsets[0] != 0 || key_offsets[0] != 0)
        return false;
    for (size_t s = 0; s < sequences; s++) {
        int32_t least = key_offsets[s];

        if (offsets[s + 1] < offsets[s] || key_offsets[s + 1] < least)
            return false;
        for (int32_t n = offsets[s]; reach && n < offsets[s + 1]; n++) {
            if (reach[n] < least || reach[n] > key_offsets[s + 1])
                return false;
            least = reach[n];
        }
    }
    return true;
}
