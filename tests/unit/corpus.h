/* tests/unit/corpus.h - iterate over the YAML files of other projects in the shared
 * data. */
#ifndef TESTS_UNIT_CORPUS_H
#define TESTS_UNIT_CORPUS_H

#include "tests/unit/unit.h"

/* Call `each` with the path and text of every file; skip the test if there are none. */
static inline size_t corpus_walk(void (*each)(void *context, const char *path,
                                              const struct text *text),
                                 void *context)
{
    char *manifest = unit_shared("corpus/MANIFEST.tsv"), *dir, *save = NULL;
    struct text list, text;
    size_t count = 0;

    if (!manifest) {
        print_message("# SKIP there is no corpus in the shared data\n");
        skip();
    }
    dir = path_dir(manifest);
    text_init(&list, 0);
    text_init(&text, 0);
    assert_true(file_read(manifest, 1 << 20, &list, NULL, NULL));
    for (char *line = strtok_r(list.data, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        const char *name = strrchr(line, '\t');
        char *path;

        if (!name || !(text_ends(name, ".yaml") || text_ends(name, ".yml")))
            continue;
        path = path_join(dir, name + 1);
        assert_true(file_read(path, 1 << 20, &text, NULL, NULL));
        each(context, path, &text);
        count++;
        free(path);
    }
    text_clear(&text);
    text_clear(&list);
    free(dir);
    free(manifest);
    return count;
}

#endif
