/* train/dataset/dataset_pair.c - the tokens of the answers, and how many of them fit. */
#include "config.h"

#include "train/dataset/dataset_pair.h"

#include <string.h>

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Tokens of the question: all before the trained tokens at the end. */
static size_t question_tokens(const struct dataset_pair_member *member)
{
    size_t count = member->ids.count;

    while (count > 0 && member->weights[count - 1] > 0)
        count--;
    return count;
}

/* Keep the first `question` of the question's `from` tokens, and the first `answer`
 * tokens of the answer. */
static void keep_tokens(struct dataset_pair_member *member, size_t from, size_t question,
                        size_t answer)
{
    uint32_t *ids = member->ids.ids;

    memmove(ids + question, ids + from, answer * sizeof(*ids));
    member->ids.count = question + answer;
    for (size_t i = 0; i < question + answer; i++)
        member->weights[i] = i < question ? 0 : 1;
}

/* Do the same with the spans of media. Return false if one is not kept whole. */
static bool keep_media(struct dataset_pair_member *member, size_t from, size_t question,
                       size_t answer)
{
    for (size_t i = 0; i < member->span_count; i++) {
        struct media_span *span = &member->spans[i];
        bool answers = span->start >= from;
        size_t start = answers ? span->start - from + question : span->start;

        if (start + span->len > question + (answers ? answer : 0))
            return false;
        span->start = (uint32_t)start;
    }
    return true;
}

bool dataset_pair_cut(struct dataset_pair_member members[2], size_t cutoff_len,
                      bool *lost)
{
    const size_t questions[2] = { question_tokens(&members[0]),
                                  question_tokens(&members[1]) };
    const size_t answers[2] = { members[0].ids.count - questions[0],
                                members[1].ids.count - questions[1] };
    size_t question = max_size(questions[0], questions[1]),
           answer = max_size(answers[0], answers[1]);
    bool learned = true;

    *lost = false;
    template_cut(cutoff_len, &question, &answer);
    for (size_t i = 0; i < 2; i++) {
        size_t before = min_size(question, questions[i]),
               kept = min_size(answer, answers[i]);

        *lost = !keep_media(&members[i], questions[i], before, kept) || *lost;
        keep_tokens(&members[i], questions[i], before, kept);
        /* the first token has no token before it */
        learned = learned && kept > (before == 0);
    }
    return learned;
}
