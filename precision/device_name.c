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

/* "NVIDIA A100-SXM4-80GB", folded, becomes "a10080gb": names as nvidia-smi, rocm-smi and
 * torch print them. */
static void cut_vendor(char *folded)
{
    static const char *const makers[] = { "nvidia", "geforce",       "tesla",
                                          "amd",    "instinct",      "radeon",
                                          "intel",  "datacentergpu", "huawei",
                                          "habana", "google",        "cloud" };
    static const char *const forms[] = {
        "withmaxqdesign",
        "workstationedition",
        "serveredition",
        "generation",
        "blackwell",
        "sxm2",
        "sxm3",
        "sxm4",
        "sxm5",
        "sxm",
        "pcie",
        "hbm3e",
        "hbm3",
        "hbm2e",
        "hbm2",
        "gpu",
        "oam",
        "graphics",
    };

    for (size_t i = 0; i < TS_COUNT(makers); i++) {
        size_t len = strlen(makers[i]);

        if (strncmp(folded, makers[i], len) == 0 && folded[len] != '\0')
            cut(folded, 0, len);
    }
    for (size_t i = 0; i < TS_COUNT(forms); i++) {
        char *found = strstr(folded, forms[i]);

        if (found && found > folded)
            cut(folded, (size_t)(found - folded), strlen(forms[i]));
    }
}

/* "Intel(R) Arc(TM) A770" becomes "Intel Arc A770", and "npu:0" becomes "npu". */
static void cut_marks(const char *text, char *out, size_t room)
{
    size_t len = 0;

    for (; *text && *text != ':' && len + 1 < room; text++)
        if (*text == '(' && strchr(text, ')'))
            text = strchr(text, ')');
        else
            out[len++] = *text;
    out[len] = '\0';
}

/* Aliases of rows, folded; the second replaces the first. */
static const struct {
    const char *name, *row;
} others[] = {
    { "rtxtitan", "titanrtx" },
    { "dgxspark", "gb10" },
    { "gh200480gb", "gh20096gb" },
    { "h100nvl", "h10094gb" },
    { "h200nvl", "h200" },
    { "jetsonthor", "thor" },
    { "jetsonagxthor", "thor" },
    { "gtxtitanxp", "titanxp" },
    { "amd", "rocm" },
    { "radeon", "rocm" },
    { "instinct", "rocm" },
    { "mi200", "mi210" },
    { "mi300", "mi300x" },
    { "mi350", "mi350x" },
    { "apple", "mps" },
    { "applesilicon", "mps" },
    { "metal", "mps" },
    { "arc", "xpu" },
    { "ascend", "npu" },
    { "910a", "ascend910a" },
    { "910b2", "ascend910b64gb" },
    { "ascend910b1", "ascend910b64gb" },
    { "ascend910b2", "ascend910b64gb" },
    { "ascend910b3", "ascend910b64gb" },
    { "910b4", "ascend910b32gb" },
    { "ascend910b4", "ascend910b32gb" },
    { "xla", "tpu" },
    { "trillium", "tpuv6e" },
    { "strixhalo", "ryzenaimax395" },
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

static void fill_card(const struct device_row *row, struct device *out)
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
}

static void fill_accelerator(const struct accelerator_row *row, struct device *out)
{
    uint64_t bytes = (uint64_t)row->gib << 30;

    *out = (struct device) { .kind = DEVICE_OTHER,
                             .accelerator = row,
                             .memory = bytes,
                             .available = bytes,
                             .ordinal = -1 };
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

/* A product name with its size, of either table. */
struct product {
    const char *name, *size;
    unsigned gib;
    const struct device_row *card; /* one of the two */
    const struct accelerator_row *accelerator;
};

/* Return the row at an index over both tables; false past the last. */
static bool product_at(size_t at, struct product *out)
{
    const struct accelerator_row *accelerators;
    const struct device_row *cards;
    size_t card_count = device_rows(&cards),
           accelerator_count = device_accelerators(&accelerators);

    if (at < card_count) {
        *out = (struct product) { cards[at].name, cards[at].size, cards[at].gib,
                                  &cards[at], NULL };
        return true;
    }
    at -= card_count;
    if (at >= accelerator_count)
        return false;
    *out = (struct product) { accelerators[at].name, accelerators[at].size,
                              accelerators[at].gib, NULL, &accelerators[at] };
    return true;
}

/* Words that people omit: "3090", "a6000", "7900 xtx", "m2". */
static const char *const prefixes[] = { "",    "rtx", "gtx",    "jetson",
                                        "rx",  "pro", "aipro",  "apple",
                                        "arc", "max", "ascend", "tpu" };

/* Return what follows the row's name in the request with this prefix; NULL: another
 * name. */
static const char *after_name(const struct product *product, const char *prefix,
                              const char *folded, char asked[80])
{
    char name[64];
    size_t len;

    device_normalize_name(product->name, name, sizeof(name));
    snprintf(asked, 80, "%s%s", prefix, folded);
    len = strlen(name);
    return strncmp(asked, name, len) == 0 ? asked + len : NULL;
}

static bool find_product(const char *folded, struct product *out)
{
    char asked[80];

    for (size_t k = 0; k < TS_COUNT(prefixes); k++)
        for (size_t i = 0; product_at(i, out); i++) {
            const char *rest = after_name(out, prefixes[k], folded, asked);

            if (rest && (*rest == '\0' || (out->gib && read_size(rest) == out->gib)))
                return true;
        }
    return false;
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

/* Fewer letters in common are a guess: M2 is not A2. */
enum { COMMON_LETTERS = 3 };

/* Return the size that follows the row's name, with which it was not sold; 0 if the
 * request is not that. */
static unsigned other_size(const struct product *product, const char *folded)
{
    char asked[80];

    for (size_t k = 0; k < TS_COUNT(prefixes); k++) {
        const char *rest = after_name(product, prefixes[k], folded, asked);

        if (rest && read_size(rest) > 0)
            return read_size(rest);
    }
    return 0;
}

static bool is_part(const char *part, const char *whole)
{
    return strlen(part) >= COMMON_LETTERS && strstr(whole, part);
}

static bool is_near(const struct product *product, const char *folded, enum nearness how)
{
    char name[64], whole[96];

    if (how == NEAR_SIZE)
        return other_size(product, folded) > 0;
    device_normalize_name(product->name, name, sizeof(name));
    snprintf(whole, sizeof(whole), "%s%s", name, product->size);
    device_normalize_name(whole, whole, sizeof(whole));
    if (how == NEAR_TYPO)
        return strlen(folded) > COMMON_LETTERS &&
               (is_typo(folded, name) || is_typo(folded, whole));
    return is_part(folded, name) || is_part(name, folded);
}

/* "A card with that memory is sm_89:48GiB.  ", or "". */
static void write_way_out(const char *folded, char *out, size_t room)
{
    struct product product;

    *out = '\0';
    for (size_t i = 0; product_at(i, &product); i++) {
        unsigned gib = other_size(&product, folded);

        if (gib && product.card && !product.card->no_tensor_cores) {
            snprintf(out, room, "A card with that memory is sm_%d%d:%uGiB.  ",
                     product.card->major, product.card->minor, gib);
            return;
        }
    }
}

/* List the nearest rows: only the sizes if the name is right, else typos before partial
 * matches. */
static int list_near(const char *folded, char names[200])
{
    struct product product;
    int listed = 0;

    for (enum nearness how = 0; how < NEARNESS_COUNT; how++) {
        if (how == NEAR_TYPO && listed > 0)
            break;
        for (size_t i = 0; product_at(i, &product) && listed < 4; i++) {
            size_t len = strlen(names);
            bool already = how == NEAR_PART && is_near(&product, folded, NEAR_TYPO);

            if (!already && is_near(&product, folded, how))
                snprintf(names + len, 200 - len, "%s%s%s%s", listed++ ? ", " : "",
                         product.name, *product.size ? " " : "", product.size);
        }
    }
    return listed;
}

static bool no_such_device(const char *text, const char *folded, struct error *err)
{
    char names[200] = "", way_out[64];

    if (*folded == '\0' || list_near(folded, names) == 0)
        return error_set(err, ERROR_USAGE,
                         "unknown device '%s'; `trainspool devices --known` lists all "
                         "names.  A card that is not listed is a compute capability, "
                         "sm_75:24GiB, or, if it is not NVIDIA's, rocm, mps, xpu, npu, "
                         "hpu or tpu",
                         text);
    write_way_out(folded, way_out, sizeof(way_out));
    return error_set(err, ERROR_USAGE,
                     "unknown device '%s'; did you mean %s?  %s`trainspool devices "
                     "--known` lists all names",
                     text, names, way_out);
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
    struct product product;
    char folded[64], unmarked[96];

    if (names_capability(text))
        return find_capability(text, out, err);
    cut_marks(text, unmarked, sizeof(unmarked));
    device_normalize_name(unmarked, folded, sizeof(folded));
    if (strcmp(folded, "cpu") == 0) {
        *out = (struct device) { .kind = DEVICE_CPU, .ordinal = -1, .runnable = true };
        snprintf(out->name, sizeof(out->name), "cpu");
        return true;
    }
    cut_vendor(folded);
    resolve_alias(folded, sizeof(folded));
    if (*folded == '\0' || !find_product(folded, &product))
        return no_such_device(text, folded, err);
    if (product.card)
        fill_card(product.card, out);
    else
        fill_accelerator(product.accelerator, out);
    snprintf(out->name, sizeof(out->name), "%s%s%s", product.name,
             *product.size ? " " : "", product.size);
    return true;
}
