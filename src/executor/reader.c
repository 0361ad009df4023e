#include "executor/reader.h"

#include "base/utf8.h"

static uint8_t piece_buf[READER_PIECE];

void reader_init(struct reader *r, struct output *o, uint64_t from)
{
	*r = (struct reader){ .o = output_ref(o), .pos = from };
}

void reader_close(struct reader *r)
{
	output_unref(r->o);
	r->o = NULL;
}

static enum reader_got gap(struct reader *r, uint64_t to, struct reader_piece *ret)
{
	*ret = (struct reader_piece){ .from = r->pos, .to = to };
	r->pos = to;
	return READER_GAP;
}

/* Bytes of the piece that end at a character's boundary; all of them when it cannot be found in them. */
static size_t whole_characters(const uint8_t *p, size_t n)
{
	size_t partial = utf8_partial_tail(p, n);

	return partial < n ? n - partial : n;
}

static enum reader_got data(struct reader *r, const struct output_piece *p, size_t max, struct reader_piece *ret)
{
	uint64_t want = p->to - r->pos;
	size_t n = want > max ? max : (size_t)want;
	ssize_t got = output_read(r->o, p->stream, p->off, piece_buf, n);

	if (got <= 0)   /* the index knows more than the file has: lost with the machine's power */
		return gap(r, p->to, ret);
	n = (size_t)got < want ? whole_characters(piece_buf, (size_t)got) : (size_t)got;
	*ret = (struct reader_piece){ p->stream, r->pos, r->pos + n, piece_buf, n };
	r->pos += n;
	return READER_DATA;
}

enum reader_got reader_next(struct reader *r, size_t max, struct reader_piece *ret)
{
	struct output_piece p;

	output_piece_at(r->o, r->pos, &r->hint, &p);
	switch (p.what) {
	case OUTPUT_DATA:
		return data(r, &p, max, ret);
	case OUTPUT_GAP:
		return gap(r, p.to, ret);
	case OUTPUT_NONE:
		break;
	}
	if (!output_finished(r->o))
		return READER_NOTHING_YET;
	return r->pos < output_end(r->o) ? gap(r, output_end(r->o), ret) : READER_END;
}
