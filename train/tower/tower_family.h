/*
 * train/tower/tower_family.h - encoders of sound and images: a table of what differs between
 * them, of the names of their tensors, and of the models that have them.
 *
 * Sources: transformers/models/NAME/modeling_NAME.py and configuration_NAME.py (5.24).
 */
#ifndef TRAIN_TOWER_TOWER_FAMILY_H
#define TRAIN_TOWER_TOWER_FAMILY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The layers with parameters, in the order in which an input passes through them.  A block has
 * those from TOWER_IN_NORM to TOWER_BLOCK_NORM.  TOWER_DEEP_NORM to TOWER_DEEP_2 are those of the
 * mergers of DeepStack, of which there are several.
 */
enum tower_layer {
    TOWER_MEAN, /* of mel bins, which is subtracted, and then their factor */
    TOWER_FACTOR,
    TOWER_CONV_1,
    TOWER_CONV_2,
    TOWER_FILTER_1, /* of each channel; then of each point */
    TOWER_POINTS_1,
    TOWER_FILTER_2,
    TOWER_POINTS_2,
    TOWER_EMBED,
    TOWER_DISTANCES,    /* biases of attention scores */
    TOWER_PATCHES_NORM, /* of the values of a patch */
    TOWER_PATCHES,
    TOWER_CLASS,
    TOWER_POSITIONS,
    TOWER_POSITIONS_GATE,
    TOWER_TILE_POSITIONS, /* of each row of each tile, by the shape of the canvas */
    TOWER_TILES_FIRST,    /* of each tile, before the layers */
    TOWER_TILES_FIRST_GATE,
    TOWER_FIRST_NORM,
    TOWER_IN_NORM, /* of a Conformer's first feed-forward layer: up, gate */
    TOWER_IN_UP,
    TOWER_IN_DOWN,
    TOWER_NORM_1,
    TOWER_QKV,
    TOWER_QK_NORM, /* of all heads at once */
    TOWER_ATTENTION_OUT,
    TOWER_ATTENTION_GATE,
    TOWER_CONV_NORM, /* of its convolution: a value and its gate, ... */
    TOWER_GLU,
    TOWER_GLU_SHIFT, /* which is added to the bias of TOWER_GLU */
    TOWER_TIME,
    TOWER_POINTS,
    TOWER_CONV_OUT,
    TOWER_NORM_2,
    TOWER_UP, /* with a gate: gate, up; of a Conformer, up, gate */
    TOWER_DOWN_GATE,
    TOWER_DOWN,
    TOWER_BLOCK_NORM,
    TOWER_LAST_NORM,
    TOWER_TILES_LAST, /* of each tile, before the global layers */
    TOWER_TILES_LAST_GATE,
    TOWER_DEEP_NORM,
    TOWER_DEEP_1,
    TOWER_DEEP_2,
    TOWER_PROJECTOR_NORM,
    TOWER_PROJECTOR_MERGE,
    TOWER_PROJECTOR_1,
    TOWER_PROJECTOR_NORM_2,
    TOWER_PROJECTOR_UP, /* gate, up */
    TOWER_PROJECTOR_2,
    TOWER_LAYERS
};

enum { TOWER_PARTS_MAX = 3 };

/* How files name a layer: NAME.weight and NAME.bias of each of its parts, which have equal
 * numbers of rows. */
struct tower_names {
    const char
        *parts[TOWER_PARTS_MAX]; /* NULL: the layer does not exist, or no more parts */
    unsigned biases;             /* bit i: part i has a bias */
    bool bare;                   /* NAME itself is the tensor */
    bool made;                   /* it is not in files, but a norm whose weights are 1 */
    unsigned ones;               /* dimensions of 1 that come first in its shape */
};

/* Where patches are in an image, in addition to or in place of learned positions. */
enum tower_rope {
    TOWER_ROPE_NONE,
    /* the first frequencies turn by the row, the others by the column */
    TOWER_ROPE_AXES,
    /* the same, and rows and columns have alternating frequencies (Pixtral) */
    TOWER_ROPE_ALTERNATING,
    /* adjacent columns, the first of them by the column, counted from 1 (Llama 4) */
    TOWER_ROPE_PAIRS
};

struct tower_encoder {
    const char *types[5]; /* the values that model_type of its section may have */
    const char *defaults; /* JSON: what its class has by default */
    const char *width_key, *inner_key;
    double eps;             /* of norms; 0: layer_norm_eps */
    const char *biases_key; /* whether TOWER_QKV has biases; NULL: as in the names */
    bool sound;
    bool rms;    /* norms are RMSNorm, not LayerNorm */
    bool gated;  /* the MLP multiplies by a gate */
    bool scaled; /* gates of blocks have an element per column, and no tanh */
    bool conformer;
    bool has_class;
    bool class_last;     /* its position is the last of the table */
    bool windows;        /* some layers attend within windows of an image */
    bool fp32_positions; /* not rounded with the other weights */
    bool
        interpolated; /* learned positions of a grid, interpolated to that of the image */
    bool bicubic;     /* as F.grid_sample(mode="bicubic") does */
    bool smoothed;    /* as F.interpolate(antialias=True) does, not between corners */
    bool centered;    /* between the centers of patches, not between corners */
    bool norm_first;  /* TOWER_FIRST_NORM is before positions */
    const char *positions_key; /* how many positions the grid has; NULL: image_size */
    const char
        *axes_key; /* there are positions of columns and of rows, so many of each */
    const char *pool_key; /* as many patches, in each direction, are read as one */
    bool flat_patches;    /* files have the matrix of patches in two dimensions */
    enum tower_rope rope;
    const char *blocks;        /* "layers."; NULL: there are none */
    const char *global_blocks; /* names of those that follow; NULL: there are none */
    struct tower_names names[TOWER_LAYERS]; /* of the encoder */
};

/* What the projector does with the rows of the encoder. */
enum tower_rows {
    TOWER_ROWS_PAIRS,  /* the mean of two, before the last norm (sound) */
    TOWER_ROWS_JOINED, /* several side by side become one */
    TOWER_ROWS_SAME,   /* nothing, and there is no last norm */
    TOWER_ROWS_CHOSEN, /* the outputs of layers that config.json names */
    TOWER_ROWS_POOLED, /* the mean of a square of them, after the last norm */
    /* of the tiles of a canvas (tower_tiles.h): the output of the last layer and of others */
    TOWER_ROWS_TILES
};

struct tower_family {
    const char *model_type; /* of config.json */
    const char *section;    /* "vision_config" */
    const char *inner;      /* key of the section that has it; NULL: itself */
    const struct tower_encoder *encoder;
    bool is_default; /* if the section has no model_type */
    bool fixed;      /* whatever model_type it has */
    enum tower_rows rows;
    bool masked; /* rows after the end of a sound are left out */
    bool
        patches_in_blocks; /* the processor's order of patches: those to merge are adjacent */
    const char *absent; /* defaults if there is no section; NULL: those of the encoder */
    const char *ratio_key;  /* 1 / the side of the squares that are joined; NULL:
                            * spatial_merge_size */
    bool merge_inside;      /* in the section, not in config.json */
    const char *factor_key; /* the side itself, in config.json */
    bool merge_adapts;      /* an activation follows TOWER_PROJECTOR_MERGE (Llama 4) */
    bool merge_conv;        /* files have TOWER_PROJECTOR_MERGE as a convolution */
    const char *norm_key;   /* whether the projector has a norm; NULL: as in the names */
    bool square;            /* its first layer returns as many columns as it reads */
    const char *middle_key; /* columns between its layers; NULL: those of its output */
    const char *bias_key;   /* whether the projector has biases; NULL: as in the names */
    bool biases;            /* its default */
    bool output_width;      /* the section says how wide the projector's output is */
    bool transposed;        /* the file has the projector's matrix as (in, out) */
    float norm_offset;      /* of the projector's norm */
    bool rms_projector;
    bool norm_joined;              /* the projector normalizes joined rows, not each */
    double projector_eps;          /* of that norm; 0: as the norms of the encoder */
    const char *projector_eps_key; /* or where the section has it; NULL: nowhere */
    const char *const *prefixes, *const *projector_prefixes; /* end with NULL */
    struct tower_names projector[TOWER_LAYERS];
    /* the first of these layers that is trained as the projector; those before it are computed
     * with the encoder.  0: all */
    enum tower_layer projects_from;
};

/* Return the row of a model, by the model_type of its config.json and of the section of the
 * encoder (NULL: it has none); NULL if there is none. */
const struct tower_family *tower_family_find(const char *model_type,
                                             const char *tower_type);
const struct tower_family *tower_family_at(size_t index); /* NULL after the last */

/* Return how files name a layer. */
const struct tower_names *tower_family_names(const struct tower_family *family,
                                             enum tower_layer layer);
/* Return whether a layer is in the table `projector`; and whether it is trained as such. */
bool tower_layer_projects(enum tower_layer layer);
bool tower_family_projects(const struct tower_family *family, enum tower_layer layer);

#endif
