// What a user would pick: node + pg, two processes on one socket.
const cluster = require('cluster');
const http = require('http');
const { Pool } = require('pg');

const [workers, socket] = [Number(process.argv[2]), process.argv[3]];

function serve() {
  const pool = new Pool({ host: process.env.BENCH_PG, port: 5444, user: 'postgres', database: 'bench', max: 8 });
  const text = 'SELECT id, owner, status, attempt, created_at FROM run WHERE id = $1';
  http.createServer(async (request, response) => {
    const id = 'run_' + String(Math.floor(Math.random() * 100000)).padStart(6, '0');
    const rows = await pool.query({ name: 'get', text, values: [id] });
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify(rows.rows[0]));
  }).listen(socket);
}

if (cluster.isPrimary) {
  for (let i = 0; i < workers; i++) cluster.fork();
  process.on('SIGTERM', () => { for (const w of Object.values(cluster.workers)) w.kill(); process.exit(0); });
} else {
  serve();
}
