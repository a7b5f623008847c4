/* precision/device_name.c - find a device by the names that people, drivers and vendors
 * use. */
#include "config.h"

#include "precision/device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/size.h"

/* ---- Prefixes and suffixes of names, folded ---- */

static void cut(char *text, size_t at, size_t len)
{
    memmove(text + at, text + at + len, strlen(text + at + len) + 1);
}

/* "NVIDIA A100-SXM4-80GB", folded, becomes "a10080gb": names as nvidia-smi and torch
 * print them. */
static void cut_vendor(char *folded)
{
    static const char *const makers[] = { "nvidia", "geforce", "tesla" };
    static const char *const forms[] = {
        "withmaxqdesign", "workstationedition",
        "serveredition",  "generation",
        "blackwell",      "sxm2",
        "sxm3",           "sxm4",
        "sxm5",           "sxm",
        "pcie",           "hbm3e",
        "hbm3",           "hbm2e",
        "hbm2",           "gpu",
    };

    for (size_t i = 0; i < TS_COUNT(makers); i++)
        if (strncmp(folded, makers[i], strlen(makers[i])) == 0)
            cut(folded, 0, strlen(makers[i]));
    for (size_t i = 0; i < TS_COUNT(forms); i++) {
        char *found = strstr(folded, forms[i]);

        if (found)
            cut(folded, (size_t)(found - folded), strlen(forms[i]));
    }
}

/* Aliases of rows, folded; the second replaces the first. */
static const struct {
    const char *name, *row;
} others[] = {
    { "rtxtitan", "titanrtx" },    { "dgxspark", "gb10" },
    { "gh200480gb", "gh20096gb" }, { "h100nvl", "h10094gb" },
    { "h200nvl", "h200" },         { "jetsonthor", "thor" },
    { "jetsonagxthor", "thor" },   { "gtxtitanxp", "titanxp" },
};

static void resolve_alias(char *folded, size_t room)
{
    char *mobile = strstr(folded, "mobile");

    if (mobile && strlen(folded) < room)
        memcpy(mobile, "laptop", strlen("laptop"));
    for (size_t i = 0; i < TS_COUNT(others); i++)
        if (strcmp(folded, others[i].name) == 0)
            snprintf(folded, room, "%s", others[i].row);
}

/* ---- Rows ---- */

static void fill(const struct device_row *row, struct device *out)
{
    uint64_t sold = (uint64_t)row->gib << 30;

    *out =
        (struct device) { .kind = DEVICE_CUDA,
                          .major = row->major,
                          .minor = row->minor,
                          .memory = sold,
                          .available = row->visible ? (uint64_t)row->visible << 20 : sold,
                          .ordinal = -1,
                          .no_tensor_cores = row->no_tensor_cores };
    snprintf(out->name, sizeof(out->name), "%s%s%s", row->name, *row->size ? " " : "",
             row->size);
}

/* Parse "24gb", "24gib", "24g" to GB; 0 for any other text. */
static unsigned read_size(const char *text)
{
    char *end;
    unsigned long size = isdigit((unsigned char)*text) ? strtoul(text, &end, 10) : 0;

    if (size == 0 || size > 9999)
        return 0;
    return strcmp(end, "gb") == 0 || strcmp(end, "gib") == 0 || strcmp(end, "g") == 0
               ? (unsigned)size
               : 0;
}

/* Return whether the request is this row's name, alone or with its size. */
static bool is_row(const struct device_row *row, const char *prefix, const char *folded)
{
    char name[64], asked[80];
    size_t len;

    device_normalize_name(row->name, name, sizeof(name));
    snprintf(asked, sizeof(asked), "%s%s", prefix, folded);
    len = strlen(name);
    if (strncmp(asked, name, len) != 0)
        return false;
    return asked[len] == '\0' || read_size(asked + len) == row->gib;
}

/* Also accepts "3090" and "a6000". */
static const struct device_row *find_row(const char *folded)
{
    static const char *const prefixes[] = { "", "rtx", "gtx", "jetson" };
    const struct device_row *rows;
    size_t count = device_rows(&rows);

    for (size_t k = 0; k < TS_COUNT(prefixes); k++)
        for (size_t i = 0; i < count; i++)
            if (is_row(&rows[i], prefixes[k], folded))
                return &rows[i];
    return NULL;
}

/* ---- Unknown names ---- */

/* Return whether the names differ by one inserted, deleted or replaced letter, or two
 * adjacent letters swapped. */
static bool is_typo(const char *a, const char *b)
{
    size_t a_len = strlen(a), b_len = strlen(b), before = 0;

    while (a[before] != '\0' && a[before] == b[before])
        before++;
    while (a_len > before && b_len > before && a[a_len - 1] == b[b_len - 1]) {
        a_len--;
        b_len--;
    }
    if (a_len - before == 2 && b_len - before == 2)
        return a[before] == b[before + 1] && a[before + 1] == b[before];
    return a_len - before <= 1 && b_len - before <= 1;
}

enum nearness { NEAR_SIZE, NEAR_TYPO, NEAR_PART, NEARNESS_COUNT };

static bool is_near(const struct device_row *row, const char *folded, enum nearness how)
{
    char name[64], whole[96];
    size_t len;

    device_normalize_name(row->name, name, sizeof(name));
    snprintf(whole, sizeof(whole), "%s%s", name, row->size);
    device_normalize_name(whole, whole, sizeof(whole));
    len = strlen(name);
    if (how == NEAR_SIZE) /* the name with a size it was not sold with */
        return strncmp(folded, name, len) == 0 && read_size(folded + len) > 0;
    if (how == NEAR_TYPO)
        return is_typo(folded, name) || is_typo(folded, whole);
    return strlen(folded) > 1 && (strstr(name, folded) || strstr(folded, name));
}

/* List the nearest rows: only the sizes if the name is right, else typos before partial
 * matches. */
static bool no_such_device(const char *text, const char *folded, struct error *err)
{
    const struct device_row *rows;
    size_t count = device_rows(&rows);
    char names[200] = "";
    int listed = 0;

    for (enum nearness how = 0; how < NEARNESS_COUNT; how++) {
        if (how == NEAR_TYPO && listed > 0)
            break;
        for (size_t i = 0; i < count && listed < 4; i++) {
            size_t len = strlen(names);
            bool already = how == NEAR_PART && is_near(&rows[i], folded, NEAR_TYPO);

            if (!already && is_near(&rows[i], folded, how))
                snprintf(names + len, sizeof(names) - len, "%s%s%s%s",
                         listed++ ? ", " : "", rows[i].name, *rows[i].size ? " " : "",
                         rows[i].size);
        }
    }
    if (listed == 0 || *folded == '\0')
        return error_set(err, ERROR_USAGE,
                         "unknown device '%s'; `trainspool devices --known` lists all "
                         "names, or give a compute capability: sm_75:24GiB",
                         text);
    return error_set(err, ERROR_USAGE,
                     "unknown device '%s'; did you mean %s?  `trainspool devices "
                     "--known` lists all names",
                     text, names);
}

/* ---- By compute capability ---- */

/* "sm_75", "sm75", "sm_75:24GiB" */
static bool find_capability(const char *text, struct device *out, struct error *err)
{
    int digits, used = 0;
    uint64_t memory = 0;

    if (sscanf(text, "%*2[sSmM]%n", &used) < 0 || used != 2)
        used = 0;
    text += used + (text[used] == '_');
    if (sscanf(text, "%d%n", &digits, &used) != 1 || digits < 10 || digits > 999 ||
        (text[used] != ':' && text[used] != '\0'))
        return error_set(err, ERROR_USAGE,
                         "'sm_%s' is not a compute capability; write it as sm_75:24GiB",
                         text);
    if (text[used] == ':' &&
        (!device_parse_bytes(text + used + 1, &memory) || memory < DEVICE_MEMORY_LEAST))
        return error_set(err, ERROR_USAGE, "'%s' is not a memory size; write it as 24GiB",
                         text + used + 1);
    *out = (struct device) { .kind = DEVICE_CUDA,
                             .major = digits / 10,
                             .minor = digits % 10,
                             .memory = memory,
                             .available = memory,
                             .ordinal = -1 };
    snprintf(out->name, sizeof(out->name), "sm_%s", text);
    return true;
}

static bool names_capability(const char *text)
{
    return strncasecmp(text, "sm", 2) == 0 &&
           (text[2] == '_' || isdigit((unsigned char)text[2]));
}

bool device_find(const char *text, struct device *out, struct error *err)
{
    const struct device_row *row;
    char folded[64];

    if (names_capability(text))
        return find_capability(text, out, err);
    device_normalize_name(text, folded, sizeof(folded));
    if (strcmp(folded, "cpu") == 0) {
        *out = (struct device) { .kind = DEVICE_CPU, .ordinal = -1, .runnable = true };
        snprintf(out->name, sizeof(out->name), "cpu");
        return true;
    }
    cut_vendor(folded);
    resolve_alias(folded, sizeof(folded));
    row = *folded != '\0' ? find_row(folded) : NULL;
    if (!row)
        return no_such_device(text, folded, err);
    fill(row, out);
    return true;
}
