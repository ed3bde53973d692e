/* A functional ANOVA model that scores one row, written by tpnn.
It needs nothing but this file, which is C99:

    #include "model.c"
    struct tpnn_row row = {...};
    double prediction[TPNN_OUTPUTS];
    int refused = tpnn_predict(&row, prediction);

tpnn_contributions gives the values of tpnn_components, in that order, TPNN_OUTPUTS numbers each.

tpnn_remainder gives what is added to the intercept and these contributions, TPNN_OUTPUTS numbers.

The raw score is an intercept plus the values of the components, which are small grids: linear
between nodes and constant beyond them. With several outputs, answers are in the order of
tpnn_outputs. An offset that was passed to fit is the last member of the row.

Trees add the remainder to it: what they say beyond the components.

The functions return 0. If they refuse a row, because it has an infinite number or no valid offset,
they return the number of that member, from 1. NAN and NULL are missing values. A level that the
fit has not seen is no error. Link with -lm, and compile without -ffast-math. Values of a member,
by its kind:

    number             a number
    date               seconds since 1970-01-01 in UTC
    duration           seconds
    periodic number    a number; those that differ by whole periods are the same
    text               text in UTF-8
    numbers            a number that is a level
    whole numbers      a whole number that is a level, in decimal digits
    text or numbers    text, or a number in its shortest decimal form
*/
#include <math.h>
#include <stddef.h>
#include <string.h>

#ifdef __FAST_MATH__
#error "compile without -ffast-math, which does not know NAN, the missing value"
#endif

enum { TPNN_REFUSED = -3, TPNN_MISSING = -2, TPNN_UNSEEN = -1 }; /* codes of what is no level */
enum tpnn_link { TPNN_IDENTITY, TPNN_LOGIT, TPNN_LOG, TPNN_SOFTMAX, TPNN_QUANTILES };
enum tpnn_offset { TPNN_NONE, TPNN_COLUMN, TPNN_ARGUMENT, TPNN_EXPOSURE };
struct tpnn_input { /* a member of the row */
    size_t at;
    double unit;              /* what a number is divided by */
    double period;            /* of a periodic number; 0 for others */
    int n_levels;
    const double *numbers;    /* levels in increasing order, as numbers or as text */
    const char *const *texts; /* NULL where the member is a number */
    const int *codes;         /* of the levels */
};
struct tpnn_place { /* how an input becomes nodes, for components of one order */
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

struct tpnn_question { /* of the trees of the remainder */
    int place;
    const unsigned long *words; /* 32 bits each: whether each node of the place goes right */
};
/* The remainder is a sum of trees less the grids in tpnn_held. tpnn_trees: first node of each tree;
a negative number n is leaf -1 - n. tpnn_nodes: question, left and right of each. tpnn_leaves:
TPNN_OUTPUTS numbers each. */

/* BEGIN MODEL */
/* The prediction is exp(raw score). */
enum { TPNN_OUTPUTS = 1, TPNN_COMPONENTS = 3, TPNN_INPUTS = 2, TPNN_PLACES = 6, TPNN_HELD = 1, TPNN_TREES = 3 };
struct tpnn_row {
    double age; /* "age": number */
    const char *town; /* "town": text, 2 levels */
    double exposure; /* "exposure": number, positive, its logarithm is added to the raw score; never missing */
};
const char *const tpnn_classes[] = {0};
const char *const tpnn_outputs[] = {0};
const char *const tpnn_components[] = {"age", "town", "age x town"};
static const enum tpnn_link tpnn_link = TPNN_LOG;
static const enum tpnn_offset tpnn_offset = TPNN_EXPOSURE;
static const size_t tpnn_offset_at = offsetof(struct tpnn_row, exposure);
static const double tpnn_intercepts[] = {-1.5};
static const int tpnn_trees[] = {1, -4, -5};
static const int tpnn_nodes[] = {0, -2, -3, 1, -1, 0};
static const double tpnn_leaves[] = {0.5, 1.0, 2.0, 4.0, -0.5};
static const struct tpnn_input tpnn_inputs[] = {
  {offsetof(struct tpnn_row, age), 1.0, 0.0, 0, NULL, NULL, NULL},
  {offsetof(struct tpnn_row, town), 1.0, 0.0, 2, NULL, (const char *const[]){"Bonn", "Ulm"}, (const int[]){0, 1}}
};
static const struct tpnn_place tpnn_places[] = {
  {0, 3, (const double[]){20.0, 40.0, 60.0}, (const int[]){3, 4}, (const double[]){0.0, 0.0}},
  {1, 0, NULL, (const int[]){2, 2, 0, 1}, (const double[]){0.0, 0.0, 0.0, 0.0}},
  {0, 3, (const double[]){20.0, 40.0, 60.0}, (const int[]){3, 4}, (const double[]){0.0, 0.0}},
  {1, 0, NULL, (const int[]){2, 2, 0, 1}, (const double[]){0.0, 0.0, 0.0, 0.0}},
  {0, 3, (const double[]){40.0, 40.00000000000001, 40.000000000000014}, (const int[]){3, 2}, (const double[]){0.0, 0.0}},
  {1, 0, NULL, (const int[]){3, 2, 0, 1}, (const double[]){0.0, 0.0, 0.0, 0.0}}
};
static const struct tpnn_grid tpnn_grids[] = {
  {1, (const int[]){0}, (const int[]){1}, (const double[]){0.0, 0.125, 0.25, 0.375, 0.0}},
  {1, (const int[]){1}, (const int[]){1}, (const double[]){0.0, 0.125, 0.0}},
  {2, (const int[]){2, 3}, (const int[]){3, 1}, (const double[]){
    0.0, 0.125, 0.0, 0.25, 0.375, 0.0,
    0.5, 0.625, 0.0, 0.75, 0.875, 0.0,
    0.0, 0.0, 0.0
  }}
};
static const struct tpnn_grid tpnn_held[] = {
  {1, (const int[]){1}, (const int[]){1}, (const double[]){0.25, -0.25, 0.0}}
};
static const struct tpnn_question tpnn_questions[] = {
  {4, (const unsigned long[]){2}},
  {5, (const unsigned long[]){2}}
};
/* END MODEL */

/* Read a member as a number, and return the code of a level. */
static int tpnn_read(const struct tpnn_row *row, const struct tpnn_input *input, double *x)
{
    const char *member = (const char *)row + input->at, *text = NULL;
    int first = 0, end = input->n_levels;
    if (input->texts != NULL) {
        memcpy(&text, member, sizeof text);
        if (text == NULL) return TPNN_MISSING;
    } else {
        memcpy(x, member, sizeof *x);
        if (isnan(*x)) return TPNN_MISSING;
        if (isinf(*x)) return TPNN_REFUSED;
    }
    while (first < end) {
        int middle = first + (end - first) / 2;
        int order = text != NULL ? strcmp(text, input->texts[middle])
                                 : (*x > input->numbers[middle]) - (*x < input->numbers[middle]);
        if (order == 0) return input->codes[middle];
        if (order > 0) first = middle + 1;
        else end = middle;
    }
    *x /= input->unit;
    if (input->period > 0) {
        *x -= floor(*x / input->period) * input->period;
        *x = fmin(fmax(*x, 0), input->period);
    }
    return TPNN_UNSEEN;
}

/* Find the lower node of every place, and how far the row lies towards the next one. */
static int tpnn_locate(const struct tpnn_row *row, int *lower, double *fraction)
{
    double x[TPNN_INPUTS + 1] = {0};
    int code[TPNN_INPUTS + 1] = {0};
    for (int input = 0; input < TPNN_INPUTS; input++) {
        code[input] = tpnn_read(row, &tpnn_inputs[input], &x[input]);
        if (code[input] == TPNN_REFUSED) return input + 1;
    }
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

/* Add the remainder: the leaves of all trees less the grids that are held. */
static void tpnn_add_remainder(const int *lower, const double *fraction, double *values)
{
    double held[TPNN_OUTPUTS] = {0};
    for (int tree = 0; tree < TPNN_TREES; tree++) {
        int node = tpnn_trees[tree];
        while (node >= 0) {
            const struct tpnn_question *question = &tpnn_questions[tpnn_nodes[3 * node]];
            int code = lower[question->place];
            node = tpnn_nodes[3 * node + 1 + (int)(question->words[code / 32] >> code % 32 & 1)];
        }
        for (int k = 0; k < TPNN_OUTPUTS; k++)
            values[k] += tpnn_leaves[(-1 - node) * TPNN_OUTPUTS + k];
    }
    for (int g = 0; g < TPNN_HELD; g++) tpnn_add(&tpnn_held[g], lower, fraction, held);
    for (int k = 0; k < TPNN_OUTPUTS; k++) values[k] -= held[k];
}

int tpnn_raw_scores(const struct tpnn_row *row, double *raw)
{
    int lower[TPNN_PLACES + 1];
    double fraction[TPNN_PLACES + 1], offset = 0;
    int refused = tpnn_locate(row, lower, fraction);
    if (refused) return refused;
    if (tpnn_offset != TPNN_NONE) {
        memcpy(&offset, (const char *)row + tpnn_offset_at, sizeof offset);
        if (tpnn_offset == TPNN_EXPOSURE) offset = offset > 0 ? log(offset) : NAN;
        if (!isfinite(offset)) return TPNN_INPUTS + 1;
    }
    for (int k = 0; k < TPNN_OUTPUTS; k++) raw[k] = tpnn_intercepts[k];
    for (int g = 0; g < TPNN_COMPONENTS; g++) tpnn_add(&tpnn_grids[g], lower, fraction, raw);

    tpnn_add_remainder(lower, fraction, raw);

    for (int k = 0; k < TPNN_OUTPUTS; k++) raw[k] += offset;
    return 0;
}

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

/* What is beside the contributions. */
int tpnn_remainder(const struct tpnn_row *row, double *remainder)
{
    int lower[TPNN_PLACES + 1];
    double fraction[TPNN_PLACES + 1];
    int refused = tpnn_locate(row, lower, fraction);
    if (refused) return refused;
    for (int k = 0; k < TPNN_OUTPUTS; k++) remainder[k] = 0;
    tpnn_add_remainder(lower, fraction, remainder);
    return 0;
}

/* Turn raw scores into predictions. */
static void tpnn_invert(double *scores)
{
    double largest = scores[0], total = 0;
    for (int k = 0; k < TPNN_OUTPUTS; k++) {
        double score = scores[k], decay;
        int j = k;
        switch (tpnn_link) {
        case TPNN_IDENTITY:
            break;
        case TPNN_LOGIT:
            decay = exp(-fabs(score));
            scores[k] = (score >= 0 ? 1 : decay) / (1 + decay);
            break;
        case TPNN_LOG:
            scores[k] = exp(fmin(fmax(score, -300), 300));
            break;
        case TPNN_SOFTMAX:
            largest = fmax(largest, score);
            break;
        case TPNN_QUANTILES:
            for (; j > 0 && scores[j - 1] > score; j--) scores[j] = scores[j - 1];
            scores[j] = score;
            break;
        }
    }
    if (tpnn_link != TPNN_SOFTMAX) return;
    for (int k = 0; k < TPNN_OUTPUTS; k++) total += scores[k] = exp(scores[k] - largest);
    for (int k = 0; k < TPNN_OUTPUTS; k++) scores[k] /= total;
}

int tpnn_predict(const struct tpnn_row *row, double *prediction)
{
    int refused = tpnn_raw_scores(row, prediction);
    if (!refused) tpnn_invert(prediction);
    return refused;
}
