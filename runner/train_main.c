/* runner/train_main.c - trainspool-train: says its version, and knows nothing else yet.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("trainspool-train %s\n", PACKAGE_VERSION);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        printf("usage: trainspool-train --help | --version\n");
        return 0;
    }
    fprintf(stderr, "usage: trainspool-train --help | --version\n");
    return 2;
}
