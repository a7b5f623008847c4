/* train/tower/tower_buffers.c - the shapes of what an encoder computes. */
#include "config.h"

#include "train/tower/tower_pass.h"

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Rows of the second convolution, of which the last may not be used. */
static size_t convolved(const struct tower_size *size)
{
    return size->frames > 0 ? (size->frames - 1) / 2 + 1 : size->rows;
}

/* The rows that the projector reads are in a buffer of their own, unless they are the residual
 * stream. */
static struct tensor read_shape(const struct tower_config *c, enum format compute,
                                const struct tower_size *size)
{
    const bool norm = tower_config_has(c, TOWER_PROJECTOR_NORM);

    if (c->family->rows == TOWER_ROWS_JOINED && !tower_config_has(c, TOWER_LAST_NORM) &&
        !c->family->encoder->has_class)
        return tensor_of(NULL, FORMAT_FP32, 0, 0);
    return tensor_of(NULL, norm ? FORMAT_FP32 : compute, size->read, c->row_width);
}

/* Buffers that only a Conformer has, or that have another shape there; return false for
 * others. */
static bool conformer_shape(const struct tower_config *c, enum format compute,
                            const struct tower_size *size, enum tower_buffer buffer,
                            struct tensor *out)
{
    const size_t bins[] = { c->mels, (c->mels + 1) / 2, (c->mels + 3) / 4,
                            (c->mels + 7) / 8 };
    const size_t n = size->rows, wide = larger(c->inner, c->width);
    size_t points[CONFORMER_STAGES];

    for (size_t i = 0; i < CONFORMER_STAGES; i++)
        points[i] = size->stages[i] * bins[i];
    switch (buffer) {
    case TOWER_TAPS_1:
    case TOWER_TAPS_2:
    case TOWER_TAPS_3:
        *out = tensor_of(NULL, FORMAT_FP32, points[buffer - TOWER_TAPS_1 + 1], 9);
        return true;
    case TOWER_TIME_TAPS:
        *out = tensor_of(NULL, FORMAT_FP32, n, c->taps);
        return true;
    case TOWER_DISTANCE_TABLE:
        *out = tensor_of(NULL, FORMAT_FP32, c->heads, 2 * c->distances);
        return true;
    case TOWER_UNFOLDED:
        *out = tensor_of(NULL, compute, points[1], 9);
        return true;
    case TOWER_FILTERED:
        *out = tensor_of(NULL, compute, larger(points[2], points[3]), c->channels);
        return true;
    case TOWER_CONVOLVED:
        *out = tensor_of(NULL, compute, larger(points[1], points[3]), c->channels);
        return true;
    case TOWER_CONVOLVED_2:
        *out = tensor_of(NULL, compute, points[2], c->channels);
        return true;
    case TOWER_PLACES:
        *out = tensor_of(NULL, FORMAT_FP32, 0, 0);
        return true;
    case TOWER_H:
        *out = tensor_of(NULL, compute, n, c->width);
        return true;
    case TOWER_INNER:
        *out = tensor_of(NULL, compute, n, 2 * wide);
        return true;
    case TOWER_GATED:
        *out = tensor_of(NULL, compute, n, wide);
        return true;
    default:
        return false;
    }
}

struct tensor tower_buffer_shape(const struct tower_config *config, enum format compute,
                                 bool project, const struct tower_size *size,
                                 enum tower_buffer buffer)
{
    const struct tower_config *c = config;
    const struct tower_encoder *e = c->family->encoder;
    const size_t n = size->rows, w = c->width, conv = e->sound ? convolved(size) : 0;
    const size_t frames = e->sound ? size->frames : 0;
    const size_t places = c->side > 0 || c->axes > 0 || e->sound || e->has_class ? n : 0;
    const size_t turned = e->rope ? n : 0, merged = project ? size->read : 0;
    const bool merges =
        project || !tower_family_projects(c->family, TOWER_PROJECTOR_MERGE);
    const bool adapts = project || !tower_family_projects(c->family, TOWER_PROJECTOR_1);
    const size_t deep_width = w * c->group;
    const size_t tiled = c->tiles > 0 ? size->read : 0; /* rows of the image */
    const enum format fp32 = FORMAT_FP32;
    const bool trains = size->trains, normed = tower_config_has(c, TOWER_PATCHES_NORM);
    struct tensor own;

    if (e->conformer && conformer_shape(c, compute, size, buffer, &own))
        return own;
    switch (buffer) {
    case TOWER_INPUT:
        return tensor_of(NULL, normed ? fp32 : compute,
                         e->sound    ? frames
                         : tiled > 0 ? tiled / c->tile_rows * (c->tile_rows - 1)
                                     : n - e->has_class,
                         e->sound ? c->mels : c->patch_columns);
    case TOWER_INPUT_NORMED:
        return tensor_of(NULL, compute, normed ? n : 0, c->patch_columns);
    case TOWER_TAPS_1:
        return tensor_of(NULL, fp32, frames, 3);
    case TOWER_TAPS_2:
        return tensor_of(NULL, fp32, conv, 3);
    case TOWER_UNFOLDED:
        return tensor_of(NULL, compute, 1, 3 * larger(frames * c->mels, conv * w));
    case TOWER_CONVOLVED:
        return tensor_of(NULL, compute, frames, w);
    case TOWER_PLACES:
        return tensor_of(NULL, fp32, places, w);
    case TOWER_PLACES_LAST:
        return tensor_of(NULL, fp32, tiled > 0 ? n : 0, w);
    case TOWER_ANGLES:
        return tensor_of(NULL, fp32, turned, c->head_size);
    case TOWER_ANGLE_ROWS:
        return tensor_of(NULL, fp32, 1, turned);
    case TOWER_OFFSETS:
        return tensor_of(NULL, fp32, 1, 2);
    case TOWER_REACH:
        return tensor_of(NULL, fp32, 1, n);
    case TOWER_WINDOW_OFFSETS:
        return tensor_of(NULL, fp32, 1,
                         tiled > 0           ? 2
                         : size->windows > 0 ? size->windows + 1
                                             : 0);
    case TOWER_OTHER_OFFSETS:
        return tensor_of(NULL, fp32, 1, tiled > 0 ? 2 : 0);
    case TOWER_WINDOW_REACH:
        return tensor_of(NULL, fp32, 1, size->windows > 0 ? n : 0);
    case TOWER_X:
        return tensor_of(NULL, fp32, n, w);
    case TOWER_H: /* also the output of the second convolution */
        return tensor_of(NULL, compute, larger(n, conv), w);
    case TOWER_DELTA:
        return tensor_of(NULL, compute, n, w);
    case TOWER_HEADS:
        return tensor_of(NULL, compute, c->run > 0 ? n : 0, 3 * w);
    case TOWER_LSE:
        return tensor_of(NULL, fp32, c->heads, n);
    case TOWER_STATS:
        return tensor_of(NULL, fp32, 2, n);
    case TOWER_INNER:
        return tensor_of(NULL, compute, n, c->inner * (e->gated ? 2 : 1));
    case TOWER_GATED:
        return tensor_of(NULL, compute, e->gated || trains ? n : 0, c->inner);
    case TOWER_READ:
        return read_shape(c, compute, size);
    case TOWER_MERGED:
        return tensor_of(NULL, compute,
                         merges && tower_config_has(c, TOWER_PROJECTOR_MERGE) ? size->read
                                                                              : 0,
                         c->merged);
    case TOWER_MIDDLE:
        return tensor_of(NULL, compute, c->deep > 0 || adapts ? size->read : 0,
                         c->deep > 0 ? larger(c->middle, deep_width) : c->middle);
    case TOWER_EXPANDED:
        return tensor_of(NULL, compute, c->expanded > 0 ? merged : 0, 2 * c->expanded);
    case TOWER_EXPANDED_GATED:
        return tensor_of(NULL, compute, c->expanded > 0 ? merged : 0, c->expanded);
    case TOWER_MIDDLE_WIDE:
        return tensor_of(NULL, fp32, c->expanded > 0 ? merged : 0, c->middle);
    case TOWER_PROJECTED:
        return tensor_of(NULL, compute, merged, c->projected);
    case TOWER_STACKED:
        return tensor_of(NULL, compute, c->deep * size->read, c->projected);
    case TOWER_ADAPTED:
        return tensor_of(NULL, compute, size->rank > 0 ? n : 0, size->rank);
    case TOWER_DROPPED:
        return tensor_of(
            NULL, compute, size->rank > 0 && size->drops,
            larger(n * larger(w, c->inner),
                   c->deep > 0 ? size->read * larger(c->middle, deep_width) : 0));
    case TOWER_KEPT:
        return tensor_of(NULL, fp32, trains ? (c->run + (tiled > 0 ? 2 : 1)) * n : 0, w);
    case TOWER_NORMED:
    case TOWER_ATTENDED:
    case TOWER_DOUT:
        return tensor_of(NULL, compute, trains ? n : 0, w);
    case TOWER_STATS_2:
        return tensor_of(NULL, fp32, 2, trains ? n : 0);
    case TOWER_SINCE:
        return tensor_of(NULL, fp32, 1, trains ? n : 0);
    case TOWER_WINDOW_SINCE:
        return tensor_of(NULL, fp32, 1, trains && size->windows > 0 ? n : 0);
    case TOWER_TAPS_USED:
        return tensor_of(NULL, fp32, trains ? frames : 0, TOWER_USES);
    case TOWER_CONV_X:
        return tensor_of(NULL, compute, trains ? frames : 0, w);
    case TOWER_CONV_X_2:
        return tensor_of(NULL, compute, trains ? conv : 0, w);
    case TOWER_PLACE_ROWS:
        return tensor_of(NULL, fp32, 1,
                         trains && c->side > 0 && !e->interpolated ? n : 0);
    case TOWER_PLACE_WEIGHTS:
        return tensor_of(NULL, fp32, trains && e->interpolated ? n : 0,
                         c->side * c->side);
    case TOWER_DREAD:
        return tensor_of(NULL, compute, trains ? size->read : 0, c->row_width);
    case TOWER_DSTACKED:
        return tensor_of(NULL, compute, trains ? c->deep * size->read : 0, c->projected);
    case TOWER_DX:
        return tensor_of(NULL, fp32, trains ? n : 0, w);
    case TOWER_DHEADS:
        return tensor_of(NULL, compute, trains ? n : 0, 3 * w);
    case TOWER_DATTENTION:
        return tensor_of(NULL, fp32, trains ? c->heads : 0, n);
    case TOWER_DKEYS:
        return tensor_of(NULL, compute, trains ? tiled : 0, 2 * w);
    case TOWER_DMIDDLE:
        return tensor_of(NULL, compute, trains && c->deep > 0 ? size->read : 0,
                         deep_width);
    case TOWER_TAPS_3: /* of a Conformer */
    case TOWER_TIME_TAPS:
    case TOWER_DISTANCE_TABLE:
    case TOWER_FILTERED:
    case TOWER_CONVOLVED_2:
    case TOWER_BUFFERS:
        break;
    }
    return tensor_of(NULL, fp32, 0, 0);
}

struct tensor tower_pass_buffer(const struct tower_pass *pass, enum tower_buffer buffer)
{
    struct tensor t = tower_buffer_shape(pass->config, pass->compute, pass->project,
                                         &pass->size, buffer);

    t.data = pass->buffers[buffer];
    return t;
}
