/* precision/dynamic_map.c - the values of bitsandbytes' dynamic 8-bit format. */
#include "config.h"

#include "precision/dynamic_map.h"

#include <math.h>

/* Levels of the map; level i is for values from 10^(i - 7) to 10^(i - 6). */
enum { LEVELS = 7 };

/* Point k of `steps` points from 0.1 to 1, computed from the nearer end, as in
 * torch.linspace. */
static float grid_point(int k, int steps)
{
    float step = (1 - 0.1f) / (float)steps;

    if (k < (steps + 1) / 2)
        return (float)((double)0.1f + (double)step * k);
    return (float)(1 - (double)step * (steps - k));
}

/* Values above 0 are means of neighboring points; with a sign, half as many. */
void dynamic_map(bool has_sign, float map[DYNAMIC_CODES])
{
    size_t count = has_sign ? DYNAMIC_CODES / 2 - 1 : 0;

    map[count++] = 0;
    for (int level = 0; level < LEVELS; level++) {
        int steps = 1 << (level + !has_sign);

        for (int k = 0; k < steps; k++) {
            float mean = (grid_point(k, steps) + grid_point(k + 1, steps)) / 2;
            float value = mean * (float)pow(10, level - LEVELS + 1);

            if (has_sign)
                map[DYNAMIC_CODES - 2 - count] = -value;
            map[count++] = value;
        }
    }
    map[count] = 1;
}

void dynamic_map_fill(struct dynamic_map *map, bool has_sign)
{
    dynamic_map(has_sign, map->values);
    for (size_t i = 0; i + 1 < DYNAMIC_CODES; i++)
        map->between[i] = (map->values[i] + map->values[i + 1]) / 2;
    map->between[DYNAMIC_CODES - 1] = INFINITY;
}
