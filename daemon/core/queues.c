/*
 * queues.c -- how queues are made and freed.
 */
#include "daemon/core/queues.h"

#include "daemon/core/core.h"
#include "daemon/core/dirty.h"
#include "daemon/core/graph.h"
#include "daemon/core/jobs.h"
#include "daemon/core/lock.h"
#include "daemon/core/queue.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"

struct queue *
queue_find(const struct core *c, uint64_t id)
{
    struct map_node *n = map_find(&c->queues, id);

    return n != NULL ? container_of(n, struct queue, by_id) : NULL;
}

/* An empty queue. */
void
queue_init(struct queue *q)
{
    *q = (struct queue){.last_failure = CORE_NOT_GRANTED};
    job_init(&q->break_job, JOB_BREAK);
    job_init(&q->settle.job, JOB_SETTLE);
    list_init(&q->claims);
    list_init(&q->waiter_poll_node);
    list_init(&q->timing_out);
    list_init(&q->breaks);
}

void
queue_open(struct core *c, struct lock *l)
{
    struct queue *q;

    if (lock_has_queue(l)) {
        return;
    }
    q = freelist_take(&c->freelist, sizeof(*q));
    queue_init(q);
    timer_init(&q->timer, TIMER_QUEUE);
    map_add(&c->queues, &q->by_id, ++c->serial);
    q->lock = l;
    l->queue = q;
    dirty_mark_lock(c, l); /* closed at the end of the step if nothing comes of it */
}

void
queue_close(struct core *c, struct lock *l)
{
    if (lock_has_queue(l)) {
        map_remove(&c->queues, &l->queue->by_id);
        list_remove(&l->queue->waiter_poll_node);
        job_end(&l->queue->break_job);
        job_end(&l->queue->settle.job);
        graph_queue_freed(c, l->queue);
        timer_fini(&c->timers, &l->queue->timer);
        freelist_give(&c->freelist, l->queue, sizeof(*l->queue));
        l->queue = &c->empty_queue;
    }
}
