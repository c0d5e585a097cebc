# ruby-redis as a client of rlockd: client.rb PORT
require 'redis'

PORT = ARGV[0].to_i
$stdout.sync = true
redis = Redis.new(host: '127.0.0.1', port: PORT)

def subscribe(channel)
  Thread.new do
    Redis.new(host: '127.0.0.1', port: PORT, timeout: 300).subscribe(channel) do |on|
      on.subscribe { |c, _| puts "subscribed #{c}" }
      on.message { |c, m| puts "event #{c} #{m}" }
    end
  end
  1
end

puts 'ready'
$stdin.each_line do |line|
  id, _thread, verb, *words = line.chomp.split(' ')
  begin
    value = case verb
            when 'version' then Redis::VERSION
            when 'do' then redis.call(*words)
            when 'long' then redis._client.call_with_timeout(words, 300)
            when 'subscribe' then subscribe(words[0])
            else raise "no verb #{verb}"
            end
    raise value if value.is_a?(Exception)
    puts(value.nil? ? "#{id} no" : "#{id} ok #{value}")
  rescue StandardError => e
    puts "#{id} err #{e.message.tr("\n", ' ')}"
  end
end
