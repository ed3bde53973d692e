"""Text of the functions in C that are the same for every model."""

from __future__ import annotations

from tpnn.export.lowering import MISSING, UNSEEN

# keywords of C and C++, and words in small letters that headers define as macros
RESERVED_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class co_await co_return co_yield compl complex concept const const_cast consteval
    constexpr constinit continue decltype default delete do double dynamic_cast else enum errno
    explicit export extern false far float for friend goto i386 if imaginary inline int interface
    linux long mutable namespace near new noexcept noreturn not not_eq nullptr operator or or_eq
    private protected public register reinterpret_cast requires restrict return short signed sizeof
    small static static_assert static_cast stderr stdin stdout struct switch template this
    thread_local throw true try typedef typeid typename typeof union unix unsigned using virtual
    void volatile wchar_t while xor xor_eq
"""
INCLUDES = """\
#include <math.h>
#include <stddef.h>
#include <string.h>

#ifdef __FAST_MATH__
#error "compile without -ffast-math, which does not know NAN, the missing value"
#endif
"""
TYPES = """\
struct tpnn_place { /* how a column becomes nodes, for components of one order */
    int input;
    int n_nodes;
    const double *nodes;    /* of a number; none for levels */
    const int *lower;       /* node of missing and unseen values, and of every level */
    const double *fraction; /* how far each of these lies towards the next node */
};
struct tpnn_grid { /* a component */
    int order;
    const int *places;
    const int *strides;
    const double *cells; /* TPNN_OUTPUTS numbers each */
};
"""
CODES = f"enum {{ TPNN_REFUSED = -3, TPNN_MISSING = {MISSING}, TPNN_UNSEEN = {UNSEEN} }};\n"
NUMBER_READER = """\
static int tpnn_number(double value, double *x)
{
    *x = value;
    if (isnan(value)) return TPNN_MISSING;
    return isinf(value) ? TPNN_REFUSED : TPNN_UNSEEN;
}
"""
NUMBER_LEVEL_READER = """\
struct tpnn_number_level { double level; int code; };

static int tpnn_code_of_number(double value, const struct tpnn_number_level *levels,
                               int n_levels)
{
    int first = 0, end = n_levels;
    if (isnan(value)) return TPNN_MISSING;
    if (isinf(value)) return TPNN_REFUSED;
    while (first < end) {
        int middle = first + (end - first) / 2;
        if (value == levels[middle].level) return levels[middle].code;
        if (value > levels[middle].level) first = middle + 1;
        else end = middle;
    }
    return TPNN_UNSEEN;
}
"""
TEXT_LEVEL_READER = """\
struct tpnn_text_level { const char *level; int code; };

static int tpnn_code_of_text(const char *value, const struct tpnn_text_level *levels,
                             int n_levels)
{
    int first = 0, end = n_levels;
    if (value == NULL) return TPNN_MISSING;
    while (first < end) {
        int middle = first + (end - first) / 2;
        int order = strcmp(value, levels[middle].level);
        if (order == 0) return levels[middle].code;
        if (order > 0) first = middle + 1;
        else end = middle;
    }
    return TPNN_UNSEEN;
}
"""
LOCATING = """\
/* Find the lower node of every place, and how far the row lies towards the next one. */
static int tpnn_locate(const struct tpnn_row *row, int *lower, double *fraction)
{
    double x[TPNN_INPUTS + 1] = {0};
    int code[TPNN_INPUTS + 1] = {0};
    tpnn_read(row, x, code);
    for (int input = 0; input < TPNN_INPUTS; input++)
        if (code[input] == TPNN_REFUSED) return input + 1;
    for (int p = 0; p < TPNN_PLACES; p++) {
        const struct tpnn_place *place = &tpnn_places[p];
        int last = place->n_nodes - 1, node = 0, end = last;
        double inside = x[place->input];
        if (code[place->input] == TPNN_MISSING || last < 0) {
            lower[p] = place->lower[code[place->input] - TPNN_MISSING];
            fraction[p] = place->fraction[code[place->input] - TPNN_MISSING];
            continue;
        }
        if (inside < place->nodes[0]) inside = place->nodes[0];
        if (inside > place->nodes[last]) inside = place->nodes[last];
        while (end - node > 1) {
            int middle = node + (end - node) / 2;
            if (place->nodes[middle] <= inside) node = middle;
            else end = middle;
        }
        lower[p] = node;
        fraction[p] = 0;
        if (last > 0)
            fraction[p] = (inside - place->nodes[node])
                          / (place->nodes[node + 1] - place->nodes[node]);
    }
    return 0;
}

/* Add the values of a component: a weighted mean of the cells around the row. */
static void tpnn_add(const struct tpnn_grid *grid, const int *lower, const double *fraction,
                     double *values)
{
    for (int corner = 0; corner < 1 << grid->order; corner++) {
        double weight = 1;
        size_t cell = 0;
        for (int axis = 0; axis < grid->order; axis++) {
            int place = grid->places[axis], up = corner >> axis & 1;
            weight *= up ? fraction[place] : 1 - fraction[place];
            cell += (size_t)(lower[place] + up) * (size_t)grid->strides[axis];
        }
        if (weight == 0) continue;
        for (int k = 0; k < TPNN_OUTPUTS; k++)
            values[k] += weight * grid->cells[cell * TPNN_OUTPUTS + (size_t)k];
    }
}
"""
RAW_SCORES = """\
int tpnn_raw_scores(const struct tpnn_row *row, {argument}double *raw)
{{
    int lower[TPNN_PLACES + 1];
    double fraction[TPNN_PLACES + 1];
    int refused = tpnn_locate(row, lower, fraction);
    if (refused) return refused;
{checks}    for (int k = 0; k < TPNN_OUTPUTS; k++) raw[k] = tpnn_intercepts[k];
    for (int g = 0; g < TPNN_COMPONENTS; g++) tpnn_add(&tpnn_grids[g], lower, fraction, raw);
{added}    return 0;
}}
"""
PREDICT = """
int tpnn_predict(const struct tpnn_row *row, {argument}double *prediction)
{{
    int refused = tpnn_raw_scores(row, {passed}prediction);
    if (refused) return refused;
{inverse}    return 0;
}}
"""
CONTRIBUTIONS = """\

int tpnn_contributions(const struct tpnn_row *row, double *contributions)
{
    int lower[TPNN_PLACES + 1];
    double fraction[TPNN_PLACES + 1];
    int refused = tpnn_locate(row, lower, fraction);
    if (refused) return refused;
    for (int g = 0; g < TPNN_COMPONENTS; g++) {
        double *values = contributions + g * TPNN_OUTPUTS;
        for (int k = 0; k < TPNN_OUTPUTS; k++) values[k] = 0;
        tpnn_add(&tpnn_grids[g], lower, fraction, values);
    }
    return 0;
}
"""
INVERSES = {
    "identity": "",
    "logit": """\
    for (int k = 0; k < TPNN_OUTPUTS; k++) {
        double decay = exp(-fabs(prediction[k]));
        prediction[k] = (prediction[k] >= 0 ? 1 : decay) / (1 + decay);
    }
""",
    "log": """\
    for (int k = 0; k < TPNN_OUTPUTS; k++)
        prediction[k] = exp(fmin(fmax(prediction[k], -300), 300));
""",
    "softmax": """\
    double largest = prediction[0], total = 0;
    for (int k = 1; k < TPNN_OUTPUTS; k++) largest = fmax(largest, prediction[k]);
    for (int k = 0; k < TPNN_OUTPUTS; k++) {
        prediction[k] = exp(prediction[k] - largest);
        total += prediction[k];
    }
    for (int k = 0; k < TPNN_OUTPUTS; k++) prediction[k] /= total;
""",
    "quantiles": """\
    for (int k = 1; k < TPNN_OUTPUTS; k++) {
        double score = prediction[k];
        int j = k;
        for (; j > 0 && prediction[j - 1] > score; j--) prediction[j] = prediction[j - 1];
        prediction[j] = score;
    }
""",
}
