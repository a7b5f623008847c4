/* tests/unit/unit_leaks.h - for LeakSanitizer: libsndfile 1.2.0 leaks some kilobytes of a
 * Vorbis file with damaged headers. */
#ifndef TESTS_UNIT_LEAKS_H
#define TESTS_UNIT_LEAKS_H

const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libsndfile.so\nleak:libvorbis.so\nleak:libogg.so\n";
}

#endif
