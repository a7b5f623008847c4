/* docs/job_manual.c - program of `make manual`: writes the keys into trainspool-job.5. */
#include "config.h"

#include "patcher/schema/schema_manual.h"

#include <stdio.h>

#include "base/file.h"

#define PAGE_MAX ((size_t)1 << 20) /* bytes */

int main(int argc, char **argv)
{
    struct error err = { 0 };
    struct text page, out;
    bool ok;

    if (argc != 2) {
        fprintf(stderr, "usage: job_manual PAGE\n");
        return 2;
    }
    text_init(&page, 0);
    text_init(&out, 0);
    ok = file_read(argv[1], PAGE_MAX, &page, NULL, &err) &&
         schema_manual_update(&page, &out, &err) &&
         file_replace(argv[1], out.data, out.len, 0644, &err);
    if (!ok)
        fprintf(stderr, "job_manual: %s\n", err.text);
    text_clear(&page);
    text_clear(&out);
    return ok ? 0 : 1;
}
