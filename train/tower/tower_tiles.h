/*
 * train/tower/tower_tiles.h - images in tiles (Llama 3.2 Vision): a canvas of up to
 * config->tiles squares, each with a class token.
 *
 * The encoder always reads all tiles.  Its rows here are those of the image's tiles; then the
 * padding of all tiles; then the tiles that are not of the image.
 */
#ifndef TRAIN_TOWER_TOWER_TILES_H
#define TRAIN_TOWER_TOWER_TILES_H

#include "train/tower/tower_config.h"

struct tower_tiles {
    size_t down, across, count; /* of the image */
    size_t shape;               /* its row of the tables, from 1 */
    size_t rows;                /* of the encoder */
};

/* Return how many shapes a canvas may have. */
size_t tower_tiles_shapes(const struct tower_config *config);
/* Describe a canvas of `height` x `width` patches.  ERROR_DATA if it has no whole tiles, or too
 * many of them. */
bool tower_tiles_make(const struct tower_config *config, size_t height, size_t width,
                      struct tower_tiles *out, struct error *err);
/* Return which patch of the canvas, in raster order, patch `index` of its tiles is. */
size_t tower_tiles_patch(const struct tower_config *config,
                         const struct tower_tiles *tiles, size_t index);
/* Order the columns of rows that the projector reads, or of its matrix, whose items have so many
 * bytes.  transformers has those after the last layer by channel, then by layer (torch.stack); a
 * pass has whole layers.  to_pass: from there to here; else back. */
void tower_tiles_order(const struct tower_config *config, void *rows, size_t count,
                       size_t item, bool to_pass);
/* Return where the rows of a tile start. */
size_t tower_tiles_row(const struct tower_config *config, const struct tower_tiles *tiles,
                       size_t tile);
/* Fill what is added to each row (rows, width): before the layers, and before the global ones.
 * host: the elements of layers outside the blocks. */
void tower_tiles_places(const struct tower_config *config,
                        const struct tower_tiles *tiles, const float *const *host,
                        float *out);
void tower_tiles_places_last(const struct tower_config *config,
                             const struct tower_tiles *tiles, const float *const *host,
                             float *out);

#endif
